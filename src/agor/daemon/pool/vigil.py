"""What is seen to while an executor lives: that it is connected, that it answers, that it ends.

None of this ends an executor by itself: it has it stopped, as everybody else does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import TYPE_CHECKING

from agor.daemon.pool.settings import PoolSettings
from agor.daemon.pool.states import UP, Happening
from agor.errors import AgorError

if TYPE_CHECKING:
    from agor.daemon.pool.pooled import PooledExecutor

#: Seconds in which the end of a lost connection's executor should be heard of.
_NEWS = 2.0
_RECONNECT_PAUSE = 0.1


class Vigil:
    """The vigil over one executor."""

    def __init__(
        self, executor: PooledExecutor, keeper_gone: asyncio.Event, settings: PoolSettings
    ) -> None:
        self._executor = executor
        self._keeper_gone = keeper_gone
        self._settings = settings
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Begin, once it has given its first answer."""
        self._keep(self._follow_connection())
        self._keep(self._follow_health())

    def limit_time(self) -> None:
        """Have it stopped when its time is over, which has begun."""
        wall_time = self._settings.limits.wall_time
        if wall_time is not None:
            self._keep(self._end_after(wall_time))

    def end(self) -> None:
        """Let it be."""
        for task in self._tasks:
            task.cancel()

    def _keep(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow_connection(self) -> None:
        """Connect again after a cut; an executor that cannot be reached is lost."""
        executor, environment = self._executor, self._executor.environment
        while executor.state in UP:
            ended = await environment.wait_disconnected()
            if executor.state not in UP or self._keeper_gone.is_set():
                return
            try:
                await executor.reconnect()
                executor.log.info("reconnected", why=ended.message)
                # One that hangs up again and again must not keep us busy.
                await asyncio.sleep(_RECONNECT_PAUSE)
            except (AgorError, OSError) as error:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._keeper_gone.wait(), _NEWS)
                executor.begin_stop(f"its connection was lost ({error})")
                return

    async def _follow_health(self) -> None:
        """A busy executor still answers; one that does not, and lives, hangs."""
        executor, environment = self._executor, self._executor.environment
        patience = self._settings.ping_timeout
        while executor.state in UP:
            await asyncio.sleep(self._settings.ping_interval)
            if executor.state not in UP or not environment.connected:
                continue
            if await executor.answers(patience):
                continue
            if executor.state in UP and environment.connected:
                executor.happen(Happening.SILENT)
                executor.log.warning("executor_hangs", silent_for=patience)
                executor.begin_stop(f"it did not answer for {patience:g} s")

    async def _end_after(self, wall_time: float) -> None:
        await asyncio.sleep(max(0.0, wall_time - self._executor.running_for))
        self._executor.begin_stop(f"it ran for {wall_time:g} s (execution.limits.wall_time)")
