"""Executors that nobody uses: ended after a while, or sooner if others wait for their places."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from agor.daemon.pool.ending import Ending
from agor.daemon.pool.pooled import PooledExecutor
from agor.daemon.pool.states import Happening, State


class Resting:
    """Leases of executors, and what becomes of those that have none."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._timers: dict[PooledExecutor, asyncio.TimerHandle] = {}
        #: Those that are ended for others.
        self._making_room: set[PooledExecutor] = set()
        #: The ends that we began and that are under way.
        self.ends: set[asyncio.Task[Ending]] = set()
        self._closed = False

    def lease(self, pooled: PooledExecutor) -> None:
        """Somebody has it now."""
        if pooled.state is State.IDLE:
            pooled.happen(Happening.ACQUIRED)
        pooled.leases += 1
        self._stop_timer(pooled)

    def release(self, pooled: PooledExecutor) -> bool:
        """Somebody has it no more; tells whether nobody else has."""
        pooled.leases -= 1
        pooled.last_used = time.monotonic()
        if pooled.leases:
            return False
        if pooled.state is State.BUSY:
            pooled.happen(Happening.RELEASED)
        self.rest(pooled)
        return True

    def rest(self, pooled: PooledExecutor) -> None:
        """Nobody has it: it stays warm for a while."""
        if not self._closed:
            loop = asyncio.get_running_loop()
            self._timers[pooled] = loop.call_later(self._timeout, self._expire, pooled)

    def make_room(self, wanted: int, among: Iterable[PooledExecutor]) -> None:
        """End idle ones for so many who wait, the longest unused first."""
        if self._closed:
            return
        idle = [pooled for pooled in among if pooled.state is State.IDLE]
        idle.sort(key=lambda each: each.last_used)
        for pooled in idle[: max(0, wanted - len(self._making_room))]:
            self._making_room.add(pooled)
            self._end(pooled, "others wait for its place")

    def forget(self, pooled: PooledExecutor) -> None:
        """It has ended."""
        self._stop_timer(pooled)
        self._making_room.discard(pooled)

    def close(self) -> None:
        """Nobody is ended for having rested any more."""
        self._closed = True
        for pooled in list(self._timers):
            self._stop_timer(pooled)

    def _expire(self, pooled: PooledExecutor) -> None:
        del self._timers[pooled]
        if pooled.state is State.IDLE:
            self._end(pooled, f"idle for {self._timeout:g} s")

    def _stop_timer(self, pooled: PooledExecutor) -> None:
        if timer := self._timers.pop(pooled, None):
            timer.cancel()

    def _end(self, pooled: PooledExecutor, reason: str) -> None:
        end = pooled.begin_stop(reason)
        self.ends.add(end)
        end.add_done_callback(self.ends.discard)
