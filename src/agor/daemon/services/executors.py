"""What services need of those who run executors: the pool, or the direct path.

An executor belongs to a seat: a session with its tasks, by the session's id, or one terminal, by
the terminal's. So stopping a task, which ends its executor, leaves the session's terminals alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agor.daemon.pool.ending import Ending
from agor.daemon.pool.settings import Claim
from agor.daemon.pool.take_back import TakenBack
from agor.execution import ExecutionEnvironment
from agor.protocol.api import ExecutorInfo


def seat_of(executor: ExecutorInfo) -> str:
    """Name the seat of an executor that runs."""
    return executor.terminal_id or executor.session_id


class Executors(Protocol):
    """One executor per seat, had when needed."""

    async def open(self) -> Sequence[TakenBack]:
        """Take back what runs already."""

    async def acquire(self, claim: Claim) -> ExecutionEnvironment:
        """Get the executor of a seat; `release` it when the work is done."""

    def acquire_idle(self, claim: Claim) -> ExecutionEnvironment | None:
        """Get the executor of a seat as `acquire` does, if it is there and has nothing to do."""

    def has(self, name: str) -> bool:
        """Tell whether a seat has an executor, or is about to."""

    def refuse_if_crowded(self, name: str) -> None:
        """Raise `PoolExhausted` if a claim for this seat would have to be refused now."""

    def release(self, name: str, environment: ExecutionEnvironment | None = None) -> None:
        """Give it back."""

    async def stop(self, name: str, reason: str) -> Ending | None:
        """End it and all that it started. None if there was nothing to verify."""

    def describe(self) -> list[ExecutorInfo]:
        """List those there are."""

    @property
    def spares(self) -> int:
        """How many were started ahead, and are nobody's yet."""

    async def close(self, *, drain: bool) -> None:
        """Take no more claims; end them, or leave them for the daemon after us."""
