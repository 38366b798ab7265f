"""The tool calls of a turn. Whoever asks about one may come before it has been told."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from agor.agents.turn import Block

#: Seconds for a call to be told that somebody asks about; it is on its way.
_PATIENCE = 10.0


class Call(NamedTuple):
    """A tool call whose block has begun."""

    block: Block
    tool_name: str


class Calls:
    """Tool calls that have no result yet, by their ids."""

    def __init__(self) -> None:
        self._open: dict[str, Call] = {}
        self._denied: set[str] = set()
        self._news = asyncio.Condition()

    async def begin(self, tool_use_id: str, call: Call) -> None:
        """Take a call whose block has begun."""
        async with self._news:
            self._open[tool_use_id] = call
            self._news.notify_all()

    def has(self, tool_use_id: str) -> bool:
        """Tell whether a call has begun, and has no result yet."""
        return tool_use_id in self._open

    async def find(self, tool_use_id: str) -> Call | None:
        """Get a call, once it has been told."""
        try:
            async with asyncio.timeout(_PATIENCE), self._news:
                await self._news.wait_for(lambda: tool_use_id in self._open)
                return self._open[tool_use_id]
        except TimeoutError:
            return None

    def deny(self, tool_use_id: str) -> None:
        """Remember that a call was denied: its result is no failure of the tool."""
        self._denied.add(tool_use_id)

    def end(self, tool_use_id: str) -> tuple[Call | None, bool]:
        """Let go of a call that has its result; tell whether it was denied."""
        denied = tool_use_id in self._denied
        self._denied.discard(tool_use_id)
        return self._open.pop(tool_use_id, None), denied

    def clear(self) -> None:
        """Forget all of them."""
        self._open.clear()
        self._denied.clear()
