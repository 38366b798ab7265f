"""One executor of the pool, from its start to a verified end.

Invariants:
- a record is saved before it gets any work, and removed after nothing of it is left;
- `ended` is set once, whoever ended it, and by then its processes, socket, folder and cgroup are
  gone, or counted as survivors.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Coroutine

import structlog

from agor.daemon.pool.ending import UNKNOWN, Ending, ending
from agor.daemon.pool.ladder import Ladder
from agor.daemon.pool.limits import explain_death
from agor.daemon.pool.parts import Parts
from agor.daemon.pool.records import ExecutorRecord
from agor.daemon.pool.settings import Claim
from agor.daemon.pool.states import WARM, Happening, State, after
from agor.environments.identity import UnixIdentity
from agor.environments.launching import LauncherLink
from agor.errors import AgorError, Disconnected, ExecutorFailed, SocketUnusable, TimedOut
from agor.execution import ExecutionEnvironment
from agor.linux import is_alive
from agor.protocol.launching import (
    SPAWN,
    Family,
    Process,
    SpawnParams,
)
from agor.rpc import Limits, Peer, Routes, unix

log = structlog.get_logger("agor.pool")

#: Seconds for the launcher to fork, on a busy machine.
_SPAWN_TIMEOUT = 10.0
#: Seconds in which the end of a lost connection's executor should be heard of.
_NEWS = 2.0
_RECONNECT_PAUSE = 0.1
#: Seconds between two looks at a keeper that cannot be watched.
_LOOK_INTERVAL = 0.25
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
        self.reason: str | None = None
        self._parts = parts
        self.folder = parts.folders.executor(executor_id)
        self.environment = ExecutionEnvironment(
            executor_id, parts.host, self._connect, parts.daemon_id
        )
        self._family: Family | None = None
        self._cgroup = parts.backend.open(executor_id)
        self._pidfd: int | None = None
        self._keeper_gone = asyncio.Event()
        self._stopping: asyncio.Task[Ending] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self.log = log.bind(executor=executor_id, session=claim.session_id, user=identity.name)

    @property
    def started_at(self) -> float:
        """When it was started, in seconds since 1970."""
        return self._started_at

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
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                raise ExecutorFailed(f"no executor could be started: {error}") from error
            if told.explanation is not None or isinstance(error, TimeoutError | SocketUnusable):
                raise told.error() from error
            raise
        self._go()

    async def adopt(self, family: Family, started_at: float) -> None:
        """Take one back that an earlier daemon started."""
        self._started_at = started_at
        self._watch(family)
        await self._greet()
        self._go()

    def watch_only(self, family: Family) -> None:
        """Know its processes, in order to end it."""
        self._watch(family)

    async def _greet(self) -> None:
        await self.environment.reconnect(self._parts.settings.connection_timeout)
        self._refuse_the_dead()

    def _refuse_the_dead(self) -> None:
        if self._stopping is not None:
            raise Disconnected("it died after its first answer")

    def _go(self) -> None:
        self.happen(Happening.READY)
        self._begin(self._follow_connection())
        self._begin(self._follow_health())
        wall_time = self._parts.settings.limits.wall_time
        if wall_time is not None:
            self._begin(self._end_after(wall_time))

    async def _come_up(self) -> None:
        """Have it started and recorded, and greet it meanwhile: its socket listens before it is."""
        parts, settings = self._parts, self._parts.settings
        link = await parts.launchers.link(self.identity)
        prepared = parts.backend.prepare(self.executor_id, settings.limits, uid=self.identity.uid)
        self._cgroup = prepared.cgroup
        patience = settings.connection_timeout
        with contextlib.ExitStack() as ours:
            ours.callback(prepared.close)
            fds = [*self.folder.create(ours), *prepared.fds]
            greeting = asyncio.create_task(self.environment.reconnect(_SPAWN_TIMEOUT + patience))
            try:
                family = await self._spawn(link, prepared.rlimits, fds)
                # What is left is the executor's: if it dies now, who connected hears of it.
                ours.close()
                await self._record(family)
                await asyncio.wait_for(greeting, patience)
            except BaseException:
                greeting.cancel()
                await asyncio.gather(greeting, return_exceptions=True)
                raise
        self._refuse_the_dead()
        self.log.info("executor_started", pid=family.executor.pid, limits=prepared.achieved)

    async def _spawn(
        self, link: LauncherLink, rlimits: tuple[tuple[int, int], ...], fds: list[int]
    ) -> Family:
        settings = self._parts.settings
        params = SpawnParams(
            executor_id=self.executor_id,
            orphan_timeout_ms=int(settings.orphan_timeout * 1000),
            max_line=settings.max_line,
            outbox_bytes=settings.outbox_bytes,
            rlimits=rlimits,
        )
        try:
            family = await link.call(SPAWN, params, fds, timeout=_SPAWN_TIMEOUT)
        except TimedOut:
            self._parts.launchers.give_up(link)
            raise
        self._watch(family)
        return family

    async def _record(self, family: Family) -> None:
        self.folder.write_family(family)
        await self._parts.records.save(
            ExecutorRecord(
                executor_id=self.executor_id,
                session_id=self.claim.session_id,
                user_id=self.claim.user_id,
                unix_user=self.identity.name,
                started_at=self._started_at,
                terminal_id=self.claim.terminal_id,
                family=family,
            )
        )

    async def _connect(self, routes: Routes) -> Peer:
        limits = Limits(max_line=self._parts.settings.max_line)
        timeout = self._parts.settings.connection_timeout
        return await unix.connect(self.folder.socket_path, routes, limits, timeout)

    # ── watching ─────────────────────────────────────────────────────────────────────────────

    def _watch(self, family: Family) -> None:
        """Hear of the keeper's end, whoever is its parent."""
        self._family = family
        try:
            self._pidfd = os.pidfd_open(family.keeper.pid)
        except ProcessLookupError:
            self._on_keeper_gone()
            return
        except OSError as error:
            # Out of descriptors, it may be. It runs, and somebody must see its end.
            self.log.warning("watched_by_looking", why=error.strerror)
            self._begin(self._look_at(family.keeper))
            return
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_keeper_gone)
        if not is_alive(family.keeper):
            self._on_keeper_gone()

    async def _look_at(self, keeper: Process) -> None:
        while is_alive(keeper):  # noqa: ASYNC110 - there is no event of it
            await asyncio.sleep(_LOOK_INTERVAL)
        self._on_keeper_gone()

    def _on_keeper_gone(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._keeper_gone.set()
        # Nobody asked for it: it has ended by itself, or was killed.
        self.begin_stop(None)

    async def _follow_connection(self) -> None:
        """Connect again after a cut; an executor that cannot be reached is lost."""
        while self.state in WARM:
            ended = await self.environment.wait_disconnected()
            if self.state not in WARM or self._keeper_gone.is_set():
                return
            try:
                await self.environment.reconnect(self._parts.settings.connection_timeout)
                self.log.info("reconnected", why=ended.message)
                # One that hangs up again and again must not keep us busy.
                await asyncio.sleep(_RECONNECT_PAUSE)
            except (AgorError, OSError) as error:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._keeper_gone.wait(), _NEWS)
                self.begin_stop(f"its connection was lost ({error})")
                return

    async def _follow_health(self) -> None:
        """A busy executor still answers; one that does not, and lives, hangs."""
        settings = self._parts.settings
        while self.state in WARM:
            await asyncio.sleep(settings.ping_interval)
            if self.state not in WARM or not self.environment.connected:
                continue
            if await self.environment.is_healthy(settings.ping_timeout):
                continue
            if self.state in WARM and self.environment.connected:
                self.happen(Happening.SILENT)
                self.log.warning("executor_hangs", silent_for=settings.ping_timeout)
                self.begin_stop(f"it did not answer for {settings.ping_timeout:g} s")

    async def _end_after(self, wall_time: float) -> None:
        await asyncio.sleep(max(0.0, self._started_at + wall_time - time.time()))
        self.begin_stop(f"it ran for {wall_time:g} s (execution.limits.wall_time)")

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
            self._parts, self.identity, self.environment, self._keeper_gone, self._family,
            self._cgroup,
        )  # fmt: skip
        try:
            survivors = await ladder.climb(self.reason or "stopped", hung=hung)
        except Exception:
            self.log.exception("stop_failed")
            survivors = UNKNOWN
        return await self._conclude(survivors)

    async def _conclude(self, survivors: int) -> Ending:
        for task in self._tasks:
            task.cancel()
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
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        try:
            if self._cgroup is not None:
                await self._cgroup.remove()
            if survivors == 0:
                self.folder.remove()
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
        for task in self._tasks:
            task.cancel()
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
