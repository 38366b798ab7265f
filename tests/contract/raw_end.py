"""The other end of a connection as plain bytes: writes what it likes, reads lines."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from tests.contract.waiting import soon


class RawEnd(asyncio.Protocol):
    """A protocol that understands nothing and keeps every line."""

    def __init__(self) -> None:
        self._reading: asyncio.Transport | None = None
        self._writing: asyncio.WriteTransport | None = None
        self._buffer = b""
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.ended = asyncio.Event()

    # ── what tests use ───────────────────────────────────────────────────────────────────────

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        self._out.write(data)

    def say(self, *messages: Any) -> None:
        """Write values, a line of JSON each."""
        self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    async def line(self) -> bytes:
        """Read the next line; `EOFError` if there is none."""
        line = await soon(self._lines.get())
        if line is None:
            self._lines.put_nowait(None)
            raise EOFError("the connection ended")
        return line

    async def hear(self) -> Any:
        """Read the next line as JSON."""
        return json.loads(await self.line())

    async def ask(self, *messages: Any) -> Any:
        """Say something and read one line."""
        self.say(*messages)
        return await self.hear()

    async def rest(self) -> list[Any]:
        """Read everything until the end."""
        found = []
        while True:
            try:
                found.append(await self.hear())
            except EOFError:
                return found

    def stop_reading(self) -> None:
        """Leave what comes where it is."""
        self._in.pause_reading()

    def read_on(self) -> None:
        """Read again."""
        self._in.resume_reading()

    def stop_writing(self) -> None:
        """End this direction only."""
        self._out.write_eof()

    def close(self) -> None:
        """Write what is left and end both directions."""
        for transport in self._open():
            transport.close()

    def abort(self) -> None:
        """End both directions now."""
        if self._writing is None:
            self._in.abort()
        elif not self._writing.is_closing():
            self._writing.abort()
        self.close()

    async def drop(self) -> None:
        """End both directions, and wait until it is over."""
        self.abort()
        await soon(self.ended.wait())

    # ── what the event loop uses ─────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._reading = cast("asyncio.Transport", transport)

    def write_to(self, transport: asyncio.WriteTransport) -> None:
        """Write elsewhere than where it reads: pipes go one way."""
        self._writing = transport

    @property
    def _in(self) -> asyncio.Transport:
        assert self._reading is not None
        return self._reading

    def _open(self) -> list[asyncio.BaseTransport]:
        """List what has not begun to end: pipes cannot be closed twice."""
        return [one for one in {self._out, self._in} if not one.is_closing()]

    @property
    def _out(self) -> asyncio.WriteTransport:
        return self._writing or self._in

    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        self._lines.put_nowait(None)


def request(request_id: Any, method: str, *params: Any, **named: Any) -> dict[str, Any]:
    """Spell out a request, with params by position or by name."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": named or list(params)}


def notice(method: str, *params: Any, **named: Any) -> dict[str, Any]:
    """Spell out a notification."""
    return {"jsonrpc": "2.0", "method": method, "params": named or list(params)}
