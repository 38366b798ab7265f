"""One turn of Codex: from the prompt until it and its sub-agents are done."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from agor.agents.codex.app_server import AppServer, Json, Message
from agor.agents.codex.approvals import Approvals
from agor.agents.codex.faults import fault_of, is_sure
from agor.agents.codex.telling import Telling
from agor.agents.turn import Turn
from agor.errors import AgentFailed
from agor.protocol.events import Log, MetadataUpdate
from agor.protocol.methods import GetApiKeyResult


class CodexTurn:
    """One prompt that Codex works on."""

    def __init__(
        self, server: AppServer, thread_id: str, turn: Turn, telling: Telling, key: GetApiKeyResult
    ) -> None:
        self._server = server
        self._thread_id = thread_id
        self._turn = turn
        self._telling = telling
        self._key = key
        self._approvals = Approvals(server, turn, telling)

    async def run(self, params: Json) -> None:
        """Begin the turn and tell what comes of it."""
        messages = self._server.listen()
        tasks: list[asyncio.Task[Any]] = []
        try:
            async with asyncio.TaskGroup() as group:
                tasks.append(group.create_task(self._server.call("turn/start", params)))
                try:
                    await self._follow(messages, group, tasks)
                finally:
                    for task in tasks:
                        task.cancel()
            await self._telling.end()
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        finally:
            self._server.ignore()

    async def _follow(
        self,
        messages: asyncio.Queue[Message | None],
        group: asyncio.TaskGroup,
        tasks: list[asyncio.Task[Any]],
    ) -> None:
        over = False
        while not over or self._telling.waiting:
            message = await messages.get()
            if message is None:
                raise await self._server.explain_end()
            if message.id is not None:
                # Somebody may take hours to answer, and others may be asked meanwhile.
                tasks.append(group.create_task(self._answer(message)))
            else:
                with _understanding(message):
                    over = await self._take(message) or over

    async def _answer(self, message: Message) -> None:
        with _understanding(message):
            await self._approvals.answer(message)

    async def _take(self, message: Message) -> bool:
        """Take what the server tells; true when the turn is over."""
        params = message.params
        if params.get("threadId") != self._thread_id:
            await self._telling.take(message)
            return False
        match message.method:
            case "turn/started":
                # Only from here on is there a record that can be resumed.
                self._turn.agent_session_id = self._thread_id
                await self._turn.tell(MetadataUpdate(agent_session_id=self._thread_id))
            case "error":
                fault = self._fault(params.get("error"))
                if is_sure(fault):
                    raise fault
                if params.get("willRetry"):
                    await self._warn(f"trying again: {fault.message}")
            case "mcpServer/startupStatus/updated" if params.get("status") == "failed":
                name, error = params.get("name"), params.get("error")
                await self._warn(f"the MCP server {name} did not start: {error}")
            case "warning":
                await self._warn(str(params.get("message")))
            case "turn/completed":
                # Sub-agents may go on.
                self._turn.over = not self._telling.waiting
                self._check(params["turn"])
                return True
        await self._telling.take(message)
        return False

    def _check(self, ended: Json) -> None:
        if ended["status"] == "failed":
            raise self._fault(ended.get("error"))
        if ended["status"] != "completed":
            raise AgentFailed(f"codex left its turn {ended['status']}")

    def _fault(self, error: Json | None) -> AgentFailed:
        return fault_of(error, self._key.api_key, self._key.credential_key or "OPENAI_API_KEY")

    async def _warn(self, words: str) -> None:
        await self._turn.tell(Log("warning", words))


@contextlib.contextmanager
def _understanding(message: Message) -> Iterator[None]:
    """Say it in words if a message is not what it used to be."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise AgentFailed(
            f"codex said {message.method} in a way that agor does not understand: {error!r}",
            hint="Install the version that agor was tested with: `agor agent install codex`.",
        ) from error


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Find the first error of several that came at once."""
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
