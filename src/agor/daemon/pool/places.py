"""The places of a pool: so many and no more, and whose turn it is when one becomes free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agor.daemon.pool.waiting import FairQueue


class Places:
    """Counts places and hands them on."""

    def __init__(self, most: int, most_waiting: int, make_room: Callable[[], None]) -> None:
        self._free = most
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue(most_waiting)
        self._make_room = make_room

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._queue)

    @property
    def crowded(self) -> bool:
        """Whether who comes now is turned away."""
        return self._free <= 0 and self._queue.full

    def occupy(self) -> None:
        """Take a place without asking: for one who has it already, even if there are too many."""
        self._free -= 1

    async def take(self, user: str) -> None:
        """Take a place, now or when it is one's turn."""
        if self._free > 0:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.push(user, turn)
        self._make_room()
        try:
            await turn
        except asyncio.CancelledError:
            # Cancelled in the moment it was one's turn: it is the next one's then.
            if not self._queue.remove(user, turn) and not turn.cancelled():
                self.give()
            raise

    def give(self) -> None:
        """Give a place back, to who waits if there is somebody."""
        if self._free < 0 or (turn := self._queue.pop()) is None:
            self._free += 1
        elif turn.done():
            self.give()
        else:
            turn.set_result(None)
