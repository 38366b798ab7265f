"""The lines between us and an ACP agent, within bounds.

The ACP package makes a task of every message it is given, as fast as they come. So it is given
only what it cannot choke on: session updates go past it into a bounded queue, in order, and while
that is full nothing is read, so that the agent has to wait. What is no message at all is passed
over, a few times.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from agor.agents.acp.said import Said
from agor.agents.lines import read_lines
from agor.protocol.validation import UNREADABLE

log = structlog.get_logger("agor.executor")

_UPDATE = "session/update"
#: Requests of the agent's that are not answered yet.
_MOST_ASKED = 64
#: Lines in a row that are no messages. Some programs print a word of greeting; one that goes on
#: does not speak ACP.
_MOST_UNREADABLE = 100


class Transport:
    """Messages over the streams of a program."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines = read_lines(reader)
        self._writer = writer
        #: What the agent said and nobody has dealt with.
        self.said = Said()
        #: Why nothing is read any more, if it is the agent's fault.
        self.problem: str | None = None
        self._unreadable = 0
        self._asked = 0
        self._answered = asyncio.Event()
        self._writing = asyncio.Lock()

    async def send(self, message: Mapping[str, Any]) -> None:
        """Write a message; waits while the agent does not read."""
        if "method" in message:
            await self._write(message)
            return
        self._asked -= 1
        self._answered.set()
        # Whoever asked and is gone needs no answer.
        with contextlib.suppress(ConnectionError):
            await self._write(message)

    async def _write(self, message: Mapping[str, Any]) -> None:
        line = msgspec.json.encode(message) + b"\n"
        async with self._writing:
            if self._writer.is_closing():
                raise ConnectionError("the program's input is closed")
            self._writer.write(line)
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """Read the next message for the ACP package; none at the end."""
        while self.problem is None and (line := await self._read_line()) is not None:
            message = _message(line)
            if message is None:
                self._count_unreadable(line)
                continue
            self._unreadable = 0
            if message.get("method") == _UPDATE:
                await self._take_update(message)
            elif "method" not in message or "id" in message:
                await self._take_turn(message)
                return message
            # Other notices mean nothing to us.
        return None

    async def close(self) -> None:
        """Read and write no more; the streams are the program's."""
        self._answered.set()

    async def _read_line(self) -> bytes | None:
        try:
            return await anext(self._lines, None)
        except ValueError:
            self.problem = "sent a line that is longer than any message may be"
            return None

    async def _take_update(self, message: dict[str, Any]) -> None:
        from acp.schema import SessionNotification
        from pydantic import ValidationError

        try:
            update = SessionNotification.model_validate(message.get("params"))
        except (ValidationError, RecursionError):
            # Most likely of a kind that is newer than we are.
            log.debug("acp_update_passed_over")
            return
        await self.said.put(update)

    async def _take_turn(self, message: dict[str, Any]) -> None:
        """Wait while too many requests of the agent's are not answered."""
        if "method" not in message:
            return
        while self._asked >= _MOST_ASKED:
            self._answered.clear()
            await self._answered.wait()
        self._asked += 1

    def _count_unreadable(self, line: bytes) -> None:
        if not line.strip():
            return
        self._unreadable += 1
        log.debug("acp_line_passed_over", size=len(line))
        if self._unreadable > _MOST_UNREADABLE:
            self.problem = "sends what are no messages of the Agent Client Protocol"


def _message(line: bytes) -> dict[str, Any] | None:
    """Read a line, if it is a message that the ACP package can bear."""
    try:
        message = msgspec.json.decode(line)
    except UNREADABLE:
        return None
    if not isinstance(message, dict) or not isinstance(message.get("method", ""), str):
        return None
    number, error = message.get("id", 0), message.get("error", {})
    answer = "method" not in message
    if (
        isinstance(number, bool)
        or not isinstance(number, int | str)
        or (answer and "id" not in message)
    ):
        return None
    if answer and not (isinstance(error, dict) and isinstance(error.get("code", 0), int)):
        return None
    return message
