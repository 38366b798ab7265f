"""Where writes wait for the one writer.

Invariants:
- writes are committed in the order in which `add` was called, whatever becomes of the callers;
- the writer sees no more than `Bounds.line_bytes` and `line_writes`; what comes after that waits
  behind, and counts for its caller, who holds it anyway;
- a group takes what is there, in order, up to `group_rows` and `group_bytes`; a write is never
  divided, so one alone may be larger.

All of it is called in the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from agor.daemon.store.base import Write
from agor.errors import StoreError

#: Kinds of values whose length counts; all others are small.
_SIZED: frozenset[type] = frozenset((str, bytes))
#: What a row costs beside its values, roughly.
_ROW = 64


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is committed at once, and how much may wait."""

    group_rows: int = 8192
    group_bytes: int = 8 * 1024 * 1024
    line_writes: int = 65536
    line_bytes: int = 64 * 1024 * 1024


@dataclass(slots=True, eq=False)
class Waiting:
    """A write in the line, and whoever waits for it."""

    write: Write
    rows: int
    size: int
    done: asyncio.Future[None]


class Line:
    """The writes that are not committed yet."""

    def __init__(self, bounds: Bounds, wake: Callable[[], None]) -> None:
        self._bounds = bounds
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._ready: deque[Waiting] = deque()
        self._behind: deque[Waiting] = deque()
        #: What the writer can see or has taken, and is not settled.
        self.held_writes = 0
        self.held_bytes = 0
        self._drained: asyncio.Future[None] | None = None

    def add(self, write: Write) -> Waiting:
        """Take a place in the line."""
        rows, size = _measure(write)
        waiting = Waiting(write, rows, size, self._loop.create_future())
        if self._behind or not self._has_room():
            self._behind.append(waiting)
        else:
            self._enter(waiting)
        return waiting

    def take(self) -> list[Waiting]:
        """Take the next group; empty if nobody waits."""
        group: list[Waiting] = []
        rows = size = 0
        ready, bounds = self._ready, self._bounds
        while ready and rows < bounds.group_rows and size < bounds.group_bytes:
            waiting = ready.popleft()
            rows += waiting.rows
            size += waiting.size
            group.append(waiting)
        return group

    def settle(self, group: list[Waiting], refused: dict[int, StoreError]) -> None:
        """Tell the callers of a group what came of it; `refused` is by place in the group."""
        for place, waiting in enumerate(group):
            self.held_bytes -= waiting.size
            if waiting.done.done():
                continue
            error = refused.get(place) if refused else None
            if error is None:
                waiting.done.set_result(None)
            else:
                # One error may be for many: each caller gets a copy, for its own traceback.
                waiting.done.set_exception(error.again())
        self.held_writes -= len(group)
        while self._behind and self._has_room():
            self._enter(self._behind.popleft())
        if self._drained is not None and self.held_writes == 0 and not self._drained.done():
            self._drained.set_result(None)

    async def drain(self) -> None:
        """Wait until everything is settled. Nobody may add to it meanwhile."""
        if self.held_writes:
            self._drained = self._loop.create_future()
            await self._drained

    def abandon(self) -> None:
        """Let go of all callers: nobody will ever know what became of their writes."""
        for waiting in (*self._ready, *self._behind):
            waiting.done.cancel()
        self._ready.clear()
        self._behind.clear()

    def _has_room(self) -> bool:
        return (
            self.held_bytes < self._bounds.line_bytes
            and self.held_writes < self._bounds.line_writes
        )

    def _enter(self, waiting: Waiting) -> None:
        self.held_writes += 1
        self.held_bytes += waiting.size
        self._ready.append(waiting)
        self._wake()


async def refuse(error: StoreError) -> None:
    """Be a write that fails, for who awaits it."""
    raise error


def refuse_all(group: list[Waiting], error: StoreError) -> dict[int, StoreError]:
    """Refuse a whole group."""
    return dict.fromkeys(range(len(group)), error)


def _measure(write: Write) -> tuple[int, int]:
    """Count the rows and the bytes of a write."""
    rows = len(write.statements)
    size = 0
    # Most writes have none, and this is on everybody's way.
    if write.records:
        rows += len(write.records)
        size = sum(len(record.detail) for record in write.records)
    for run in write.events:
        rows += len(run.bodies)
        size += sum(map(len, run.bodies))
    for statement in write.statements:
        for value in statement.values:
            if type(value) in _SIZED:
                size += len(value)
    return rows, size + rows * _ROW
