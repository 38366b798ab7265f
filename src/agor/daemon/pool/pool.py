"""The pool: one executor per seat, started when asked for, reused while warm, bounded in number.

A seat is a session with its tasks, or one terminal: what has an executor to itself.

Invariants:
- concurrent claims of one seat share one executor;
- at most `max_executors` exist, those that start and those that stop included, spares not;
- every claim ends in an executor or in an error that says why, and a cancelled one leaves no trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable

import structlog

from agor.daemon.pool.ending import Ending
from agor.daemon.pool.folders import ID_LENGTH, Folders
from agor.daemon.pool.identities import identity_for
from agor.daemon.pool.launchers import Launchers
from agor.daemon.pool.limits import probe
from agor.daemon.pool.parts import Parts
from agor.daemon.pool.places import Places
from agor.daemon.pool.pooled import PooledExecutor
from agor.daemon.pool.records import Records
from agor.daemon.pool.resting import Resting
from agor.daemon.pool.seats import Seat
from agor.daemon.pool.settings import NOBODY, Claim, PoolSettings
from agor.daemon.pool.spares import Spares
from agor.daemon.pool.states import WARM, State
from agor.daemon.pool.take_back import TakenBack, take_back
from agor.environments.identity import UnixIdentity
from agor.errors import (
    Disconnected,
    ExecutorFailed,
    LauncherLost,
    PoolClosed,
    PoolExhausted,
)
from agor.execution import ExecutionEnvironment, Host
from agor.linux import shortage
from agor.protocol.api import ExecutorInfo

log = structlog.get_logger("agor.pool")

#: Executors that are tried for one claim if they die at their start, or do not answer.
_ATTEMPTS = 3
#: Seconds to wait before the last of them.
_FAILURE_PAUSE = 1.0
#: Seconds to wait before each further attempt if the launcher died, hung or did not come up: the
#: kernel may kill one after the other while the machine has too little memory.
_LAUNCHER_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0)


class Pool:
    """The executors of one daemon."""

    def __init__(
        self,
        settings: PoolSettings,
        host: Host,
        records: Records,
        *,
        daemon_id: str = "daemon",
        on_end: Callable[[Ending], None] = lambda _: None,
    ) -> None:
        folders = Folders(settings)
        launchers = Launchers(settings, folders)
        self._parts = Parts(
            settings, host, records, folders, launchers, probe(settings.runtime), daemon_id
        )
        self._spares = Spares(
            settings.spare_executors, settings.max_executors, launchers, self._make_spare
        )
        self._settings = settings
        self._on_end = on_end
        self._seats: dict[str, Seat] = {}
        self._places = Places(settings.max_executors, settings.max_waiting, self._make_room)
        self._resting = Resting(settings.idle_timeout)
        #: Set once we know what an earlier daemon left; before, an executor could be made twice.
        self._open = asyncio.Event()
        self._closed = False

    @property
    def backend(self) -> str:
        """Say what enforces the limits."""
        return self._parts.backend.summary

    @property
    def kind(self) -> str:
        """Say how executors run, in a few words."""
        return f"processes, limited by {self._parts.backend.name}"

    async def open(self) -> list[TakenBack]:
        """Take back what an earlier daemon left running, and clean up what it left lying.

        Those with work under way are leased to the caller, who releases them when it is done.
        """
        try:
            found, endings = await take_back(self._parts)
            for one in found:
                seat = Seat(one.pooled.claim, one.pooled.identity)
                seat.bring(_already(one.pooled))
                self._seats[one.pooled.claim.seat] = seat
                self._places.occupy()
                self._settle(seat, one.pooled)
                if one.has_work:
                    self._resting.lease(one.pooled)
                else:
                    self._resting.rest(one.pooled)
        except BaseException:
            # Not knowing what runs already, we must not start it a second time.
            self._closed = True
            raise
        finally:
            self._open.set()
        for ending in endings:
            self._on_end(ending)
        return found

    # ── claims ───────────────────────────────────────────────────────────────────────────────

    async def acquire(self, claim: Claim) -> ExecutionEnvironment:
        """Get the executor of a seat; `release` it when the work is done."""
        identity = identity_for(claim, self._settings)
        failures = 0
        pauses = iter(_LAUNCHER_PAUSES)
        await self._open.wait()
        while True:
            self._refuse_if_closed()
            # Spares may all be of one kind, and no good: the second time it is a fresh start.
            seat = self._seats.get(claim.seat) or self._take_seat(
                claim, identity, spare=not failures
            )
            try:
                pooled = await seat.wait()
            except LauncherLost as error:
                pause = next(pauses, None)
                if pause is None:
                    raise
                log.warning("start_delayed", seat=claim.seat, why=error.message)
                await asyncio.sleep(pause)
                continue
            except Disconnected as error:
                # It died; the next one may be luckier.
                failures += 1
                if failures == _ATTEMPTS:
                    raise ExecutorFailed(f"no executor could be started: {error}") from error
                if failures > 1:
                    await asyncio.sleep(_FAILURE_PAUSE)
                continue
            if pooled is None:
                # Not before its end: asking again at once would never let that happen.
                if seat.pooled is not None:
                    await asyncio.shield(seat.pooled.ended)
                await asyncio.sleep(0)
                continue
            # By number: what else is known of a user may have changed since it started.
            if pooled.state in WARM and pooled.identity.uid == identity.uid:
                self._resting.lease(pooled)
                return pooled.environment
            if pooled.state in WARM:
                await pooled.stop("the session runs as another Unix user now")
            await asyncio.shield(pooled.ended)

    def acquire_idle(self, claim: Claim) -> ExecutionEnvironment | None:
        """Get the executor of a seat as `acquire` does, if it is there and has nothing to do."""
        seat = self._seats.get(claim.seat)
        if self._closed or not self._open.is_set() or seat is None or seat.pooled is None:
            return None
        pooled = seat.pooled
        identity = identity_for(claim, self._settings)
        if pooled.state is not State.IDLE or pooled.identity.uid != identity.uid:
            return None
        self._resting.lease(pooled)
        return pooled.environment

    @contextlib.asynccontextmanager
    async def lease(self, claim: Claim) -> AsyncIterator[ExecutionEnvironment]:
        """Have the executor of a seat for as long as the block lasts."""
        environment = await self.acquire(claim)
        try:
            yield environment
        finally:
            self.release(claim.seat, environment)

    def release(self, name: str, environment: ExecutionEnvironment | None = None) -> None:
        """Give an executor back; it stays warm for `idle_timeout`.

        Who names the environment gives back that one only, and not one that came after it.
        """
        seat = self._seats.get(name)
        if seat is None or seat.pooled is None or seat.pooled.leases == 0:
            return
        pooled = seat.pooled
        if environment is not None and pooled.environment is not environment:
            return
        if self._resting.release(pooled) and self._places.waiting:
            self._make_room()

    async def stop(self, name: str, reason: str) -> Ending | None:
        """End the executor of a seat, whatever it does."""
        seat = self._seats.get(name)
        return None if seat is None else await seat.stop(reason)

    def executors(self) -> list[PooledExecutor]:
        """List those there are."""
        return [seat.pooled for seat in self._seats.values() if seat.pooled is not None]

    def has(self, name: str) -> bool:
        """Tell whether a seat has an executor, or is about to."""
        return name in self._seats

    def refuse_if_crowded(self, name: str) -> None:
        """Raise `PoolExhausted` if a claim for this seat would have to be refused now."""
        if name not in self._seats and self._places.crowded:
            raise PoolExhausted(
                "every executor is in use, and as many others wait for one as may",
                hint="Try again later, stop a session, or raise execution.max_executors.",
            )

    def describe(self) -> list[ExecutorInfo]:
        """Show those there are."""
        return [
            ExecutorInfo(
                executor_id=each.executor_id,
                session_id=each.claim.session_id,
                user_id=each.claim.user_id,
                unix_user=each.identity.name,
                state=each.state,
                started_at=int(each.started_at * 1000),
                terminal_id=each.claim.terminal_id,
            )
            for each in self.executors()
        ]

    @property
    def spares(self) -> int:
        """How many were started ahead, and are nobody's yet."""
        return self._spares.count

    # ── seats and places ─────────────────────────────────────────────────────────────────────

    def _take_seat(self, claim: Claim, identity: UnixIdentity, *, spare: bool) -> Seat:
        seat = self._seats[claim.seat] = Seat(claim, identity)
        seat.bring(self._bring(seat, may_be_spare=spare))
        # In a callback: a task that is cancelled before its first step cannot clean up itself.
        seat.coming.add_done_callback(lambda _: self._forget_if_empty(seat))
        return seat

    def _forget_if_empty(self, seat: Seat) -> None:
        if seat.pooled is None:
            self._vacate(seat)

    def _vacate(self, seat: Seat) -> None:
        # Somebody else may sit there by now.
        if self._seats.get(seat.claim.seat) is seat:
            del self._seats[seat.claim.seat]

    async def _bring(self, seat: Seat, *, may_be_spare: bool) -> PooledExecutor:
        """Wait for a place, and have an executor in it: a spare, or else one that is started."""
        await self._places.take(seat.claim.user_id)
        try:
            spare = self._spares.take(seat.identity) if may_be_spare else None
            pooled = spare or self._make(seat.claim, seat.identity)
        except OSError as error:
            self._places.give()
            raise shortage(error) or ExecutorFailed(
                f"no executor could be started: {error}"
            ) from error
        except BaseException:
            self._places.give()
            raise
        self._settle(seat, pooled)
        await (pooled.start() if spare is None else spare.give_to(seat.claim))
        return pooled

    def _make(self, claim: Claim, identity: UnixIdentity) -> PooledExecutor:
        executor_id = secrets.token_hex(ID_LENGTH // 2)
        return PooledExecutor(executor_id, claim, identity, self._parts)

    def _make_spare(self, identity: UnixIdentity) -> PooledExecutor:
        return self._make(NOBODY, identity)

    def _settle(self, seat: Seat, pooled: PooledExecutor) -> None:
        seat.pooled = pooled
        pooled.ended.add_done_callback(lambda done: self._leave(seat, done.result()))

    def _leave(self, seat: Seat, ending: Ending) -> None:
        """An executor has ended: its place is free."""
        self._vacate(seat)
        if seat.pooled is not None:
            self._resting.forget(seat.pooled)
        self._places.give()
        self._on_end(ending)

    def _make_room(self) -> None:
        """End idle executors for those who wait, unless somebody is about to have them."""
        unwanted = [
            seat.pooled
            for seat in self._seats.values()
            if seat.pooled is not None and not seat.wanted
        ]
        self._resting.make_room(self._places.waiting, unwanted)

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    async def close(self, *, drain: bool) -> None:
        """Take no more claims; end every executor, or leave them for the daemon after us."""
        self._closed = True
        self._open.set()
        for seat in list(self._seats.values()):
            if seat.pooled is None:
                seat.call_off()
        self._resting.close()
        starting = [seat.coming for seat in self._seats.values() if not seat.coming.done()]
        if starting:
            await asyncio.wait(starting)
        await self._spares.close()
        if drain:
            stops = [pooled.stop("the daemon is shutting down") for pooled in self.executors()]
            await asyncio.gather(*stops)
        stopping = [each.stopping for each in self.executors() if each.stopping is not None]
        if under_way := {*self._resting.ends, *stopping}:
            await asyncio.wait(under_way)
        for pooled in self.executors():
            pooled.detach()
            await pooled.environment.disconnect()
        if drain:
            await self._parts.launchers.retire()
        else:
            self._parts.launchers.disconnect()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise PoolClosed("the daemon is shutting down", hint="Try again when it is back.")


async def _already(pooled: PooledExecutor) -> PooledExecutor:
    return pooled
