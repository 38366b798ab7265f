"""A client of `codex app-server`: JSON lines much like JSON-RPC, without the version member.

Both sides ask. Our questions are answered out of order; what the server tells and asks is given to
whoever listens, in order. Between turns nobody listens: then what is told is dropped, and what is
asked is refused, for there is nobody who could allow anything.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agor.agents.lines import read_lines
from agor.agents.programs import Program
from agor.errors import AgentEnded, AgentFailed

Json = dict[str, Any]

#: Messages that wait to be looked at. When there are more, the server has to wait.
_MOST_WAITING = 1000
#: Seconds for the server to answer anything: nothing we ask takes long, but machines may be busy.
_PATIENCE = 60.0
#: JSON-RPC's number for a method that the other side does not have.
_NO_SUCH_METHOD = -32601


class ServerRefusedError(Exception):
    """The server answered with an error."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """What the server tells, or asks if it has an id."""

    method: str
    params: Json
    id: int | str | None = None


class AppServer:
    """A running app-server."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._listening: asyncio.Queue[Message | None] | None = None
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, command: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> AppServer:
        """Start one and exchange greetings."""
        server = cls(await Program.start(command, cwd=cwd, env=env, name="codex"))
        try:
            client = {"name": "agor", "title": "agor", "version": "1"}
            capabilities = {"experimentalApi": True, "requestAttestation": False}
            await server.call("initialize", {"clientInfo": client, "capabilities": capabilities})
            server._send({"method": "initialized"})
        except BaseException:
            await asyncio.shield(server.stop())
            raise
        return server

    @property
    def ended(self) -> bool:
        """Whether it can be asked nothing more."""
        return self._reading.done() or self._program.exited

    async def call(self, method: str, params: Json, timeout: float = _PATIENCE) -> Any:
        """Ask, and wait for the answer."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, "method": method, "params": params})
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise AgentFailed(f"codex did not answer {method} within {timeout:g} s") from None
        finally:
            self._answers.pop(number, None)

    def answer(self, message: Message, result: Json) -> None:
        """Answer what it asked."""
        self._send({"id": message.id, "result": result})

    def refuse(self, message: Message, why: str) -> None:
        """Refuse what it asked."""
        self._send({"id": message.id, "error": {"code": _NO_SUCH_METHOD, "message": why}})

    def listen(self) -> asyncio.Queue[Message | None]:
        """Get what it tells and asks from now on; none is its end."""
        if self._listening is None:
            self._listening = asyncio.Queue(_MOST_WAITING)
            if self.ended:
                self._listening.put_nowait(None)
        return self._listening

    def ignore(self) -> None:
        """Listen no longer."""
        self._listening = None

    async def explain_end(self) -> AgentEnded:
        """Say why it ended."""
        return await self._program.ended()

    async def stop(self) -> None:
        """End it, and every process of it."""
        await self._program.stop()
        self._reading.cancel()

    def _send(self, message: Json) -> None:
        # Never drained: what is sent is small, but for prompts, which are sent one at a time.
        self._program.stdin.write(msgspec.json.encode(message) + b"\n")

    async def _read(self) -> None:
        try:
            async for line in read_lines(self._program.stdout):
                await self._take(line)
        except (ValueError, msgspec.DecodeError):
            # A line beyond all bounds, or none that we understand: nothing after it can be trusted.
            await self._program.stop()
        finally:
            await self._tell_end()

    async def _take(self, line: bytes) -> None:
        said: Json = msgspec.json.decode(line)
        if "method" not in said:
            self._take_answer(said)
            return
        message = Message(said["method"], said.get("params") or {}, said.get("id"))
        if self._listening is not None:
            await self._listening.put(message)
        elif message.id is not None:
            self.refuse(message, "no turn is going on")

    def _take_answer(self, said: Json) -> None:
        answer = self._answers.get(said["id"])
        if answer is None or answer.done():
            return
        if (error := said.get("error")) is not None:
            answer.set_exception(ServerRefusedError(error.get("message")))
        else:
            answer.set_result(said.get("result"))

    async def _tell_end(self) -> None:
        waiting = [answer for answer in self._answers.values() if not answer.done()]
        if waiting:
            ended = await self.explain_end()
            for answer in waiting:
                if not answer.done():
                    answer.set_exception(ended)
        if self._listening is not None:
            await self._listening.put(None)
