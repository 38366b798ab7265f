"""What an ACP agent said and nobody has dealt with yet: in order, and only so much of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acp.schema import (
        PermissionOption,
        RequestPermissionResponse,
        SessionNotification,
        ToolCallUpdate,
    )

_MOST_WAITING = 256


@dataclass
class Question:
    """May this tool run? The answer goes to the agent."""

    tool_call: ToolCallUpdate
    options: Sequence[PermissionOption]
    answer: asyncio.Future[RequestPermissionResponse] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def settle(self, response: RequestPermissionResponse) -> None:
        """Answer, if nobody has."""
        if not self.answer.done():
            self.answer.set_result(response)


class Said:
    """A queue that can be waited for together with something else."""

    def __init__(self) -> None:
        self._waiting: deque[SessionNotification | Question] = deque()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        #: How much was said so far.
        self.count = 0

    async def put(self, said: SessionNotification | Question) -> None:
        """Add something; waits while there is too much already."""
        while len(self._waiting) >= _MOST_WAITING:
            self._room.clear()
            await self._room.wait()
        self._waiting.append(said)
        self.count += 1
        self._news.set()

    def next(self) -> SessionNotification | Question | None:
        """Take the next, if there is one."""
        if not self._waiting:
            return None
        self._room.set()
        return self._waiting.popleft()

    async def news(self) -> None:
        """Wait until something is said, or somebody calls `wake`."""
        await self._news.wait()
        self._news.clear()

    def wake(self) -> None:
        """End the wait for news."""
        self._news.set()
