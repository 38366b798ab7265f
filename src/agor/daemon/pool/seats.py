"""A seat: one claim on an executor, shared by all who ask for it, until that executor has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from agor.daemon.pool.ending import Ending
from agor.daemon.pool.pooled import PooledExecutor
from agor.daemon.pool.settings import Claim
from agor.environments.identity import UnixIdentity
from agor.errors import ExecutorFailed


class Seat:
    """What is known of a claim: who waits for its executor, and that executor once there is one."""

    def __init__(self, claim: Claim, identity: UnixIdentity) -> None:
        self.claim = claim
        self.identity = identity
        self.pooled: PooledExecutor | None = None
        #: How many wait for it.
        self.wanted = 0
        #: Stopped by somebody before it had come.
        self._called_off = False
        self.coming: asyncio.Task[PooledExecutor]

    def bring(self, bringing: Coroutine[Any, Any, PooledExecutor]) -> None:
        """Have an executor brought to it."""
        self.coming = asyncio.create_task(bringing)

    async def wait(self) -> PooledExecutor | None:
        """Wait until it has come. None if those who wanted it before us gave up."""
        self.wanted += 1
        try:
            return await asyncio.shield(self.coming)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.coming.cancelled() or (task is not None and task.cancelling()):
                raise
            if self._called_off:
                raise ExecutorFailed("the executor was stopped before it had started") from None
            return None
        finally:
            self.wanted -= 1
            if self.wanted == 0 and not self.coming.done():
                self.coming.cancel()

    def call_off(self) -> None:
        """Have nothing brought any more; calling it off ends what there is of it."""
        self._called_off = True
        self.coming.cancel()

    async def stop(self, reason: str) -> Ending | None:
        """End its executor, whatever that does, or keep it from coming."""
        if self.coming.done() and self.pooled is not None:
            return await self.pooled.stop(reason)
        if self.pooled is not None:
            self.pooled.reason = reason
        self.call_off()
        await asyncio.wait((self.coming,))
        return None if self.pooled is None else await asyncio.shield(self.pooled.ended)
