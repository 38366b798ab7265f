"""One executor of the pool, from its start to a verified end.

Invariants:
- a record is saved before it is given to somebody, and removed after nothing of it is left;
- `ended` is set once, whoever ended it, and by then its processes, socket, folder and cgroup are
  gone, or counted as survivors.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

import structlog

from agor.daemon.pool.ending import UNKNOWN, Ending, ending
from agor.daemon.pool.keeper_watch import KeeperWatch
from agor.daemon.pool.ladder import Ladder
from agor.daemon.pool.limits import explain_death
from agor.daemon.pool.parts import Parts
from agor.daemon.pool.records import ExecutorRecord
from agor.daemon.pool.settings import NOBODY, Claim
from agor.daemon.pool.states import Happening, State, after
from agor.daemon.pool.vigil import Vigil
from agor.environments.identity import UnixIdentity
from agor.environments.launching import LauncherLink
from agor.errors import (
    AgorError,
    Disconnected,
    ExecutorFailed,
    LauncherLost,
    ResourcesExhausted,
    RpcError,
    SocketUnusable,
    TimedOut,
)
from agor.execution import ExecutionEnvironment
from agor.linux import age_of, shortage
from agor.process_clock import MAX_STRETCH, ProcessClock, wait_for
from agor.protocol.launching import SPAWN, Family, SpawnParams
from agor.protocol.methods import InitializeResult
from agor.rpc import Limits, Peer, Routes, unix

log = structlog.get_logger("agor.pool")

#: Seconds for the launcher to fork, without those that it waits for a processor.
_SPAWN_TIMEOUT = 30.0
#: Seconds for which an executor that was not assigned to anybody waits for a daemon to come back.
#: This one is connected from its start on; the next one would end it, since it has no record.
UNUSED_TIMEOUT = 10.0
#: Seconds between two questions whether an executor answers.
_CHECK = 0.05
#: Seconds in which the last that a dead executor sent must have been read.
_LAST_WORDS = 0.5


class PooledExecutor:
    """An executor, its processes and its place on this machine."""

    def __init__(
        self, executor_id: str, claim: Claim, identity: UnixIdentity, parts: Parts
    ) -> None:
        self.executor_id = executor_id
        self.claim = claim
        self.identity = identity
        self.state = State.STARTING
        self.leases = 0
        self.last_used = time.monotonic()
        self._started_at = time.time()
        self._began = time.monotonic()
        self.reason: str | None = None
        self._parts = parts
        self.folder = parts.folders.executor(executor_id)
        self.environment = ExecutionEnvironment(
            executor_id, parts.host, self._connect, parts.daemon_id
        )
        self._family: Family | None = None
        self._link: LauncherLink | None = None
        self._cgroup = parts.backend.open(executor_id)
        # Nobody asked for it: it has ended by itself, or was killed.
        self._keeper = KeeperWatch(lambda: self.begin_stop(None))
        self._stopping: asyncio.Task[Ending] | None = None
        self._vigil = Vigil(self, self._keeper.gone, parts.settings)
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self.log = log.bind(executor=executor_id, user=identity.name)
        if not self.is_spare:
            self.log = self.log.bind(session=claim.session_id)

    @property
    def is_spare(self) -> bool:
        """Whether it was started ahead, and is nobody's yet."""
        return self.claim is NOBODY

    @property
    def started_at(self) -> float:
        """When it was started, in seconds since 1970."""
        return self._started_at

    @property
    def running_for(self) -> float:
        """Seconds since it was started, whatever happened to the time of day meanwhile."""
        return time.monotonic() - self._began

    def happen(self, happening: Happening) -> None:
        """Move on in its life."""
        self.state = after(self.state, happening)

    # ── the start ────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Start it and wait for its first answer; if that fails, leave nothing behind."""
        try:
            await self._come_up()
        except BaseException as error:
            self.reason = self.reason or "it did not start"
            await asyncio.shield(self.stop(self.reason))
            told = self.ended.result()
            if isinstance(error, asyncio.CancelledError):
                raise
            if (exhausted := _shortage_behind(error)) is not None:
                raise exhausted from error
            if told.explanation is not None:
                raise told.error() from error
            if isinstance(error, TimeoutError):
                # Stopped, swapped out, or on a disk that stands still: another may do better.
                raise Disconnected(told.error().message) from error
            if isinstance(error, SocketUnusable):
                raise told.error() from error
            if isinstance(error, OSError):
                raise ExecutorFailed(f"no executor could be started: {error}") from error
            raise
        self._go()

    async def give_to(self, claim: Claim) -> None:
        """Make a spare somebody's; raises `Disconnected` if it is no good any more."""
        self.claim, self._started_at = claim, time.time()
        self._began = self.last_used = time.monotonic()
        self.log = self.log.bind(session=claim.session_id)
        work = [asyncio.create_task(self._show_life()), asyncio.create_task(self._record())]
        try:
            await asyncio.gather(*work)
            self._refuse_the_dead()
        except BaseException:
            # Not before it is known what became of the record: it must not come after the end.
            for each in work:
                each.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await asyncio.shield(self.stop("it could not be given to anybody"))
            raise
        self.environment.assign()
        self.happen(Happening.GIVEN)
        self._vigil.limit_time()
        self.log.info("spare_given")

    async def _show_life(self) -> None:
        if not await self.answers(self._parts.settings.connection_timeout):
            if self.state is State.SPARE and self.environment.connected:
                self.happen(Happening.SILENT)
            raise Disconnected("it was started ahead, and does not answer any more")

    async def answers(self, timeout: float) -> bool:
        """Tell whether it answers in time, not counting what it waits for a processor."""
        if await self.environment.is_healthy(min(timeout, _CHECK)):
            # Nearly always: the clock would take longer than the answer.
            return True
        clock = ProcessClock(None if self._family is None else self._family.executor)
        while self.environment.connected:
            # With too many requests under way, no other is sent: others must have a turn.
            await asyncio.sleep(_CHECK)
            with clock.slice(timeout) as seconds:
                if not seconds:
                    return False
                if await self.environment.is_healthy(seconds):
                    return True
        return False

    async def adopt(self, family: Family, started_at: float) -> None:
        """Take one back that an earlier daemon started."""
        self._started_at = started_at
        # By the time of day, which may have been set: it cannot be older than its process.
        age = min(time.time() - started_at, age_of(family.executor))
        self._began = time.monotonic() - max(0.0, age)
        self._watch(family)
        await self.reconnect()
        self._refuse_the_dead()
        self._go()

    def watch_only(self, family: Family) -> None:
        """Know its processes, in order to end it."""
        self._watch(family)

    async def reconnect(self) -> None:
        """Connect to one that runs, and greet it; raises `TimeoutError` if it hangs."""
        assert self._family is not None, "it runs"
        patience = self._parts.settings.connection_timeout
        greeting = asyncio.create_task(self.environment.reconnect(patience * MAX_STRETCH))
        try:
            await self._wait_for_first_answer(greeting, self._family, patience)
        finally:
            greeting.cancel()
            await asyncio.gather(greeting, return_exceptions=True)

    def _refuse_the_dead(self) -> None:
        if self._stopping is not None:
            raise Disconnected("it died after its first answer")

    def _go(self) -> None:
        self.happen(Happening.READY_AHEAD if self.is_spare else Happening.READY)
        self._vigil.begin()
        if not self.is_spare:
            self.environment.assign()
            self._vigil.limit_time()

    async def _come_up(self) -> None:
        """Have it started and recorded, and greet it meanwhile: its socket listens before it is."""
        parts, settings = self._parts, self._parts.settings
        self._link = link = await parts.launchers.link(self.identity)
        prepared = parts.backend.prepare(self.executor_id, settings.limits, uid=self.identity.uid)
        self._cgroup = prepared.cgroup
        patience = settings.connection_timeout
        with contextlib.ExitStack() as ours:
            ours.callback(prepared.close)
            fds = [*self.folder.create(ours), *prepared.fds]
            bound = (_SPAWN_TIMEOUT + patience) * MAX_STRETCH
            greeting = asyncio.create_task(self.environment.reconnect(bound))
            try:
                family = await self._spawn(link, prepared.rlimits, fds)
                # What is left is the executor's: if it dies now, who connected hears of it.
                ours.close()
                self.folder.write_family(family)
                if not self.is_spare:
                    await self._record()
                await self._wait_for_first_answer(greeting, family, patience)
            except BaseException:
                greeting.cancel()
                await asyncio.gather(greeting, return_exceptions=True)
                raise
        self._refuse_the_dead()
        what = "spare_started" if self.is_spare else "executor_started"
        self.log.info(what, pid=family.executor.pid, limits=prepared.achieved)

    async def _spawn(
        self, link: LauncherLink, rlimits: tuple[tuple[int, int], ...], fds: list[int]
    ) -> Family:
        settings = self._parts.settings
        params = SpawnParams(
            executor_id=self.executor_id,
            orphan_timeout_ms=int(settings.orphan_timeout * 1000),
            unused_timeout_ms=int(min(settings.orphan_timeout, UNUSED_TIMEOUT) * 1000),
            max_line=settings.max_line,
            outbox_bytes=settings.outbox_bytes,
            rlimits=rlimits,
        )
        try:
            family = await link.call(SPAWN, params, fds, timeout=_SPAWN_TIMEOUT)
        except TimedOut as error:
            # Others may be waiting for it: whoever stops this one calls its start off.
            await self._parts.launchers.give_up_if_silent(link)
            raise LauncherLost(error.message) from error
        except RpcError as error:
            if error.code == ResourcesExhausted.code:
                raise ResourcesExhausted(error.message, hint=error.hint) from error
            raise LauncherLost(error.message, hint=error.hint) from error
        except Disconnected as error:
            raise LauncherLost(error.message) from error
        self._watch(family)
        return family

    async def _wait_for_first_answer(
        self, greeting: asyncio.Task[InitializeResult], family: Family, timeout: float
    ) -> None:
        """Wait for it as long as it may take, not counting what it waits for a processor."""
        if not await wait_for(family.executor, greeting, timeout):
            raise TimeoutError(f"it gave no answer in {timeout:g} s")
        greeting.result()

    async def _record(self) -> None:
        assert self._family is not None, "it was started"
        await self._parts.records.save(
            ExecutorRecord(
                executor_id=self.executor_id,
                session_id=self.claim.session_id,
                user_id=self.claim.user_id,
                unix_user=self.identity.name,
                started_at=self._started_at,
                terminal_id=self.claim.terminal_id,
                family=self._family,
            )
        )

    async def _connect(self, routes: Routes) -> Peer:
        limits = Limits(max_line=self._parts.settings.max_line)
        timeout = self._parts.settings.connection_timeout
        return await unix.connect(self.folder.socket_path, routes, limits, timeout)

    # ── watching ─────────────────────────────────────────────────────────────────────────────

    def _watch(self, family: Family) -> None:
        self._family = family
        self._keeper.begin(family.keeper)

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    async def stop(self, reason: str) -> Ending:
        """End it and all that it started: ask, then TERM, then KILL. Bounded at every step."""
        return await asyncio.shield(self.begin_stop(reason))

    def begin_stop(self, reason: str | None) -> asyncio.Task[Ending]:
        """Begin to end it: from now on nobody is given it."""
        if self._stopping is None:
            self.reason = self.reason or reason
            hung = self.state is State.HUNG
            self.happen(Happening.STOP)
            self._stopping = asyncio.create_task(self._stop(hung=hung))
        return self._stopping

    @property
    def stopping(self) -> asyncio.Task[Ending] | None:
        """The end that is under way."""
        return self._stopping

    async def _stop(self, *, hung: bool) -> Ending:
        ladder = Ladder(
            self._parts,
            self.identity,
            self.environment,
            self._keeper.gone,
            self._family,
            self._link,
            self._cgroup,
        )
        try:
            survivors = await ladder.climb(self.reason or "stopped", hung=hung)
        except (AgorError, OSError) as error:
            # Nobody can be looked for now. The next daemon does, since the folder stays.
            self.log.error("stop_failed", why=str(error))
            survivors = UNKNOWN
        except Exception:
            self.log.exception("stop_failed")
            survivors = UNKNOWN
        return await self._conclude(survivors)

    async def _conclude(self, survivors: int) -> Ending:
        self._vigil.end()
        await self._hear_it_out()
        report = self.folder.read_report()
        told = ending(
            self.executor_id,
            self.claim.session_id,
            report,
            started=self._family is not None,
            reason=self.reason,
            explanation=explain_death(report.signal if report else None, self._cgroup),
            stderr_tail=self.folder.log_tail(),
            survivors=survivors,
        )
        self._keeper.close()
        try:
            if self._cgroup is not None:
                await self._cgroup.remove()
            if survivors == 0:
                self.folder.remove()
            if not self.is_spare:
                await self._parts.records.ended(told)
        except Exception:
            # The next daemon cleans up; whoever waits for this end must not wait for that.
            self.log.exception("not_cleaned_up")
        self.happen(Happening.DIED)
        say = self.log.error if survivors else self.log.info
        say("executor_ended", how=told.in_words, left_behind=told.left_behind, survivors=survivors)
        self.ended.set_result(told)
        return told

    async def _hear_it_out(self) -> None:
        """Take what it had still sent: all of it is here, since its processes are gone."""
        if self.environment.connected:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.environment.wait_disconnected(), _LAST_WORDS)
        await self.environment.close()

    def detach(self) -> None:
        """Leave it running, for the daemon that comes after us."""
        self._vigil.end()
        self._keeper.close()


def _shortage_behind(error: BaseException) -> ResourcesExhausted | None:
    """Return the error to raise if this one, or what caused it, means that something ran out."""
    for each in (error, error.__cause__):
        if isinstance(each, OSError) and (exhausted := shortage(each)) is not None:
            return exhausted
    return None
