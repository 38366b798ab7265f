"""The direct path: executors inside the daemon, over the in-memory peer. For debugging.

The same code as in an executor process and the same wire, without the process: no isolation, no
limits, and nothing to take back after a restart.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agor.daemon.pool.ending import Ending
from agor.daemon.pool.folders import ID_LENGTH
from agor.daemon.pool.pool import Pool
from agor.daemon.pool.settings import Claim, PoolSettings
from agor.daemon.pool.take_back import TakenBack
from agor.environments.identity import UnixIdentity
from agor.errors import PoolClosed, PoolExhausted
from agor.execution import ExecutionEnvironment, Host
from agor.protocol.api import ExecutorInfo
from agor.protocol.methods import ShutdownResult
from agor.rpc import Limits, Peer, Routes, memory


class InProcess(Protocol):
    """An executor that lives in this process."""

    def make_peer(self) -> Peer:
        """Make its end of a new connection."""

    async def shut_down(self, reason: str, timeout: float) -> ShutdownResult:
        """End it."""


@dataclass
class _Seat:
    claim: Claim
    environment: ExecutionEnvironment
    executor: InProcess
    leases: int = 0
    started_at: float = field(default_factory=time.time)
    timer: asyncio.TimerHandle | None = None


class DirectExecutors:
    """One in-process executor per session or terminal, reused while warm."""

    def __init__(
        self,
        settings: PoolSettings,
        host: Host,
        make: Callable[[], InProcess],
        on_end: Callable[[Ending], None],
        before: Pool | None = None,
    ) -> None:
        #: The pool of an earlier daemon, which was configured otherwise.
        self._before = before
        self._settings = settings
        self._host = host
        self._make = make
        self._on_end = on_end
        self._seats: dict[str, _Seat] = {}
        self._lock = asyncio.Lock()
        self._stops: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def kind(self) -> str:
        """Say how executors run, in a few words."""
        return "inside the daemon (execution.use_executor is false)"

    async def open(self) -> Sequence[TakenBack]:
        """There is nothing to take back; what an earlier daemon has in processes is ended."""
        if self._before is not None:
            await self._before.open()
            await self._before.close(drain=True)
        return []

    async def acquire(self, claim: Claim) -> ExecutionEnvironment:
        """Get the executor of a seat."""
        async with self._lock:
            if self._closed:
                raise PoolClosed("the daemon is shutting down", hint="Try again when it is back.")
            return self._lease(self._seats.get(claim.seat) or await self._seat(claim))

    def acquire_idle(self, claim: Claim) -> ExecutionEnvironment | None:
        """Get the executor of a seat as `acquire` does, if it is there and has nothing to do."""
        seat = self._seats.get(claim.seat)
        if seat is None or seat.leases or self._closed or self._lock.locked():
            return None
        return self._lease(seat)

    def _lease(self, seat: _Seat) -> ExecutionEnvironment:
        seat.leases += 1
        if seat.timer is not None:
            seat.timer.cancel()
        return seat.environment

    async def _seat(self, claim: Claim) -> _Seat:
        if len(self._seats) >= self._settings.max_executors:
            idle = self._idle()
            if idle is None:
                self._refuse_if_full()
            else:
                await self._end(idle, "another session needs its place")
        executor = self._make()

        async def connect(routes: Routes) -> Peer:
            ours = Peer(routes, Limits(max_line=self._settings.max_line))
            memory.join(ours, executor.make_peer())
            return ours

        environment = await ExecutionEnvironment.create(
            secrets.token_hex(ID_LENGTH // 2), self._host, connect, daemon_id="direct"
        )
        seat = self._seats[claim.seat] = _Seat(claim, environment, executor)
        return seat

    def release(self, name: str, environment: ExecutionEnvironment | None = None) -> None:
        """Give it back; it stays warm for `idle_timeout`."""
        seat = self._seats.get(name)
        if seat is None or (environment is not None and seat.environment is not environment):
            return
        seat.leases = max(0, seat.leases - 1)
        if seat.leases == 0 and not self._closed:
            loop = asyncio.get_running_loop()
            seat.timer = loop.call_later(self._settings.idle_timeout, self._expire, name)

    def _expire(self, name: str) -> None:
        task = asyncio.create_task(self._end_idle(name))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)

    async def _end_idle(self, name: str) -> None:
        async with self._lock:
            seat = self._seats.get(name)
            if seat is not None and not seat.leases:
                await self._end(seat, "idle")

    async def stop(self, name: str, reason: str) -> Ending | None:
        """End it. Nothing can be counted here: its processes are the daemon's."""
        async with self._lock:
            seat = self._seats.get(name)
            if seat is not None:
                await self._end(seat, reason)
        return None

    async def _end(self, seat: _Seat, reason: str) -> None:
        self._seats.pop(seat.claim.seat, None)
        if seat.timer is not None:
            seat.timer.cancel()
        await seat.executor.shut_down(reason, 0)
        await seat.environment.close()
        self._on_end(
            Ending(
                executor_id=seat.environment.executor_id,
                session_id=seat.claim.session_id,
                started=True,
                reason=reason,
                exit_code=None,
                signal=None,
                explanation="it was shut down",
                stderr_tail="",
                left_behind=0,
                survivors=0,
            )
        )

    def has(self, name: str) -> bool:
        """Tell whether a seat has an executor, or is about to."""
        return name in self._seats

    def refuse_if_crowded(self, name: str) -> None:
        """Raise `PoolExhausted` if a claim for this seat would have to be refused now."""
        if name not in self._seats and self._idle() is None:
            self._refuse_if_full()

    def _idle(self) -> _Seat | None:
        return next((seat for seat in self._seats.values() if not seat.leases), None)

    def _refuse_if_full(self) -> None:
        if len(self._seats) >= self._settings.max_executors:
            raise PoolExhausted(
                f"all {self._settings.max_executors} executors are busy",
                hint="Try again later, stop a session, or raise execution.max_executors.",
            )

    def describe(self) -> list[ExecutorInfo]:
        """Show those there are."""
        return [
            ExecutorInfo(
                executor_id=seat.environment.executor_id,
                session_id=seat.claim.session_id,
                user_id=seat.claim.user_id,
                unix_user=UnixIdentity.current().name,
                state="busy" if seat.leases else "idle",
                started_at=int(seat.started_at * 1000),
                terminal_id=seat.claim.terminal_id,
            )
            for seat in self._seats.values()
        ]

    @property
    def spares(self) -> int:
        """How many were started ahead: here a start costs nothing."""
        return 0

    async def close(self, *, drain: bool) -> None:
        """End them all: nobody could take them back."""
        del drain
        self._closed = True
        async with self._lock:
            for seat in list(self._seats.values()):
                await self._end(seat, "the daemon is shutting down")
