"""Notices that the writer does not answer: then nobody is left waiting for it.

A commit under way is never called off: whether it was stored is known only when the writer answers
or has ended. What has not reached the writer is refused, and so is everything that comes after it,
until the writer makes progress again.

Time is counted in ticks of the daemon's own event loop. A daemon that was suspended, or that did
not get the processor, does not blame the database for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from agor.daemon.store.line import Line, refuse_all
from agor.errors import StoreUnavailable

log = structlog.get_logger("agor.store")

#: Seconds between two ticks.
TICK_SECONDS = 1.0
#: Ticks without progress after which nobody waits any longer. A sync that takes 3 s on a busy disk
#: is slow; so is SQLite when it waits `Upkeep.busy_seconds` for another program's lock. A person
#: who waits longer than that wants to know why.
_PATIENCE = 6


class Stall:
    """How long the writer has owed an answer."""

    def __init__(self, line: Line, what: str, tick_seconds: float = TICK_SECONDS) -> None:
        self._line = line
        self._what = what
        self._tick_seconds = tick_seconds
        self.ticks = 0
        #: Why nobody should wait for the writer; none while it makes progress.
        self.error: StoreUnavailable | None = None

    async def watch(self, is_waiting: Callable[[], bool]) -> None:
        """Look after every tick whether somebody waits for the writer. Never returns."""
        while True:
            await asyncio.sleep(self._tick_seconds)
            self.tick(waiting=is_waiting())

    def tick(self, *, waiting: bool) -> None:
        """Count a tick if somebody waits for the writer."""
        if waiting:
            self._count()
        else:
            self.progress()

    def progress(self) -> None:
        """The writer has answered, or nothing is asked of it."""
        if self.error is not None:
            log.info("store_answers", database=self._what)
        self.ticks, self.error = 0, None

    def _count(self) -> None:
        self.ticks += 1
        if self.ticks < _PATIENCE:
            return
        if self.error is None:
            self.error = StoreUnavailable(
                f"{self._what} has not answered for {self.ticks * self._tick_seconds:g} s",
                hint="Look at its disk and at the kernel's log; the daemon goes on by itself as "
                "soon as it answers.",
            )
            log.warning("store_stalled", database=self._what)
        while group := self._line.take():
            self._line.settle(group, refuse_all(group, self.error))
