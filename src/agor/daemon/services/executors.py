"""What services need of those who run executors: the pool, or the direct path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agor.daemon.pool.ending import Ending
from agor.daemon.pool.settings import Claim
from agor.daemon.pool.take_back import TakenBack
from agor.execution import ExecutionEnvironment
from agor.protocol.api import ExecutorInfo


class Executors(Protocol):
    """One executor per session, had when needed."""

    async def open(self) -> Sequence[TakenBack]:
        """Take back what runs already."""

    async def acquire(self, claim: Claim) -> ExecutionEnvironment:
        """Get the executor of a session; `release` it when the work is done."""

    def acquire_idle(self, claim: Claim) -> ExecutionEnvironment | None:
        """Get the executor of a session as `acquire` does, if it is there and has nothing to do."""

    def has(self, session_id: str) -> bool:
        """Tell whether a session has an executor, or is about to."""

    def refuse_if_crowded(self, session_id: str) -> None:
        """Raise `PoolExhausted` if a claim of this session would have to be refused now."""

    def release(self, session_id: str, environment: ExecutionEnvironment | None = None) -> None:
        """Give it back."""

    async def stop(self, session_id: str, reason: str) -> Ending | None:
        """End it and all that it started. None if there was nothing to verify."""

    def describe(self) -> list[ExecutorInfo]:
        """List those there are."""

    async def close(self, *, drain: bool) -> None:
        """Take no more claims; end them, or leave them for the daemon after us."""
