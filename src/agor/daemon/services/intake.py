"""What executors tell and ask: their events into the feed, their questions to whom they concern.

Nothing that an executor says is believed. Every call carries a token that must fit the executor,
the task and the session; sequences must follow each other. An executor that breaks a rule is ended,
which harms its own task and nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from itertools import groupby
from operator import attrgetter

import structlog

from agor.daemon.pool.ending import Ending
from agor.daemon.services.audit.refused_tokens import RefusedTokens
from agor.daemon.services.credentials.keys import Keys
from agor.daemon.services.finish import Finisher, describe_loss, result_of
from agor.daemon.services.permissions.permissions import Permissions
from agor.daemon.services.runs import Run, Runs, StreamEntry
from agor.daemon.services.stream import StreamWriter
from agor.daemon.services.tokens import Grant, Tokens, hash_of
from agor.daemon.store import tokens as token_rows
from agor.daemon.store.base import Store
from agor.daemon.store.rows import TokenRow
from agor.errors import InvalidParams, RpcError, StoreUnavailable, TokenRefused, UnknownTask
from agor.execution import ExecutionEnvironment
from agor.protocol.events import Problem, TaskResult
from agor.protocol.methods import (
    GetApiKeyParams,
    GetApiKeyResult,
    ReportMessageParams,
    RequestPermissionParams,
    RequestPermissionResult,
)
from agor.protocol.terminals import ReportTerminalParams

log = structlog.get_logger("agor.intake")

_UNSTORED = Problem(
    "internal_error", "what it said last cannot be stored", "The daemon's log has the details."
)

_whose = attrgetter("session_token", "task_id")
#: Seconds between two attempts while the store cannot be read.
_PAUSE = 0.5
#: Seconds, and bytes, of events that are acknowledged together.
_ACK_AFTER = 0.25
_ACK_BYTES = 256 * 1024

#: Ends an executor: its id, and why.
EndExecutor = Callable[[ExecutionEnvironment, str], Awaitable[object]]
#: Takes what an executor says of a terminal.
TakeTerminal = Callable[[ExecutionEnvironment, ReportTerminalParams], None]


class Intake:
    """The host of all executors."""

    def __init__(
        self,
        store: Store,
        runs: Runs,
        tokens: Tokens,
        permissions: Permissions,
        keys: Keys,
        finisher: Finisher,
        refused: RefusedTokens,
        *,
        outbox_bytes: int,
        max_line: int,
    ) -> None:
        self._store = store
        self._runs = runs
        self._tokens = tokens
        self._permissions = permissions
        self._keys = keys
        self._finisher = finisher
        self._refused = refused
        # What an honest executor may have sent without an answer, and some more.
        self._most_held = 2 * outbox_bytes + 2 * max_line
        #: So much is acknowledged at once, long before an outbox is full.
        self._ack_bytes = min(_ACK_BYTES, outbox_bytes // 4)
        self._work: set[asyncio.Task[None]] = set()
        #: Those that are being ended; nothing of theirs is taken any more.
        self._outcasts: set[str] = set()
        #: Set by whoever joins us with the pool.
        self.end_executor: EndExecutor | None = None
        #: Set by whoever joins us with the terminals.
        self.hand_to_terminals: TakeTerminal = lambda *_: None

    # ── events ───────────────────────────────────────────────────────────────────────────────

    def take_events(
        self, environment: ExecutionEnvironment, events: list[ReportMessageParams]
    ) -> None:
        """Take events as they came; they are acknowledged once they are stored."""
        if environment.executor_id in self._outcasts:
            return
        token, task_id = _whose(events[0])
        same = [each for each in events if each.task_id == task_id and each.session_token == token]
        try:
            if len(same) == len(events):
                self._take_run(environment, events)
            else:
                for _, run in groupby(events, key=_whose):
                    self._take_run(environment, list(run))
        except RpcError as error:
            self._cast_out(environment, error.message)

    def refuse_event(self, environment: ExecutionEnvironment, error: InvalidParams) -> None:
        """Have nothing more to do with who sends what cannot be read."""
        self._cast_out(environment, error.message)

    def _check(
        self, environment: ExecutionEnvironment, token: str, task_id: str | None = None
    ) -> Grant:
        """Find what a token grants, or refuse it and note that."""
        try:
            return self._tokens.check(token, environment.executor_id, task_id)
        except TokenRefused as error:
            self._refused.note(environment.executor_id, error.message)
            raise

    def _take_run(
        self, environment: ExecutionEnvironment, events: list[ReportMessageParams]
    ) -> None:
        """Take events of one task, under one token."""
        token, task_id = _whose(events[0])
        run = self._runs.get(task_id)
        if run is None:
            last = events[-1].sequence
            self._begin(self._settle_stranger(environment, token, task_id, last))
            return
        self._check(environment, token, task_id)
        writer = StreamWriter(run, environment)
        try:
            writer.take(events)
        finally:
            self._hand_in(writer)

    def _hand_in(self, writer: StreamWriter) -> None:
        run, entry = writer.run, writer.entry
        if run.held > self._most_held:
            raise InvalidParams(f"more than {self._most_held} bytes came without acknowledgement")
        if writer.fresh and entry.events:
            run.live.channel.line.append(entry)
            entry.done.add_done_callback(partial(self._stored, writer))
        elif writer.repeated and run.stored:
            self._acknowledge(run, writer.environment)
        if entry.urgent:
            run.live.channel.line.urge()
        if writer.result is not None:
            run.result = writer.result
            self._begin(self._end(run, entry, writer.result))

    def _stored(self, writer: StreamWriter, done: asyncio.Future[int]) -> None:
        run, entry = writer.run, writer.entry
        run.held -= entry.size
        if done.cancelled() or isinstance(done.exception(), StoreUnavailable):
            # The daemon is ending; the next one gets them again.
            return
        if done.exception() is not None:
            run.incomplete = True
            self._cast_out(writer.environment, "its events cannot be stored")
            return
        run.stored = max(run.stored, entry.upto)
        run.unacknowledged += entry.size
        if run.result is not None or run.unacknowledged >= self._ack_bytes:
            self._acknowledge(run, writer.environment)
        elif run.ack_timer is None:
            # Not at once: it would wake the executor as often as it tells us something.
            loop = asyncio.get_running_loop()
            run.ack_timer = loop.call_later(_ACK_AFTER, self._acknowledge, run, writer.environment)

    def _acknowledge(self, run: Run, environment: ExecutionEnvironment) -> None:
        run.unacknowledged = 0
        if run.ack_timer is not None:
            run.ack_timer.cancel()
            run.ack_timer = None
        environment.acknowledge(run.task_id, run.stored)

    async def _end(self, run: Run, told: StreamEntry, result: TaskResult) -> None:
        """End a task as its executor says, once what it said is stored."""
        await asyncio.wait((told.done,))
        if isinstance(told.done.exception(), StoreUnavailable):
            # The daemon is ending; the next one hears it again.
            return
        if run.incomplete:
            result = result_of(_UNSTORED)
        await self._finisher.finish(run, result)

    async def _settle_stranger(
        self, environment: ExecutionEnvironment, token: str, task_id: str, sequence: int
    ) -> None:
        """Let go of events of a task that has ended; anybody else does not get away with them."""
        row = await self._known(environment, token)
        if row is None or row.task_id != task_id or row.executor_id != environment.executor_id:
            why = "its session token is not known"
            self._refused.note(environment.executor_id, why)
            self._cast_out(environment, why)
        elif self._runs.get(task_id) is None:
            environment.acknowledge(task_id, sequence)

    async def _known(self, environment: ExecutionEnvironment, token: str) -> TokenRow | None:
        while True:
            try:
                return await token_rows.get(self._store, hash_of(token))
            except StoreUnavailable:
                if not environment.connected:
                    raise
                await asyncio.sleep(_PAUSE)

    # ── questions ────────────────────────────────────────────────────────────────────────────

    async def get_api_key(
        self, environment: ExecutionEnvironment, params: GetApiKeyParams
    ) -> GetApiKeyResult:
        """Give a key to a task, or refuse."""
        grant = self._check(environment, params.session_token)
        return await self._keys.get(grant, [params.credential_key, *params.or_else])

    async def request_permission(
        self, environment: ExecutionEnvironment, params: RequestPermissionParams
    ) -> RequestPermissionResult:
        """Ask whoever may decide it."""
        self._check(environment, params.session_token, params.task_id)
        run = self._runs.get(params.task_id)
        if run is None:
            raise UnknownTask("this task has ended")
        return await self._permissions.ask(run, params)

    # ── terminals ────────────────────────────────────────────────────────────────────────────

    def take_terminal(
        self, environment: ExecutionEnvironment, report: ReportTerminalParams
    ) -> None:
        """Pass on what a terminal printed. It is shown to its clients, and kept nowhere."""
        if environment.executor_id in self._outcasts:
            return
        try:
            self.hand_to_terminals(environment, report)
        except RpcError as error:
            self._cast_out(environment, error.message)

    # ── ends ─────────────────────────────────────────────────────────────────────────────────

    def executor_ended(self, ending: Ending) -> None:
        """An executor is gone: so is what it had under way."""
        self._outcasts.discard(ending.executor_id)
        self._refused.executor_ended(ending.executor_id)
        for run in self._runs.on(ending.executor_id):
            run.ending = ending
            self._begin(self._lost(run, ending))

    async def _lost(self, run: Run, ending: Ending) -> None:
        current = run.live.current
        if run.result is not None or (current is not None and current.status == "stopping"):
            return
        await self._finisher.finish(run, result_of(describe_loss(ending)))

    def _cast_out(self, environment: ExecutionEnvironment, why: str) -> None:
        if environment.executor_id in self._outcasts or self.end_executor is None:
            return
        log.error("executor_misbehaves", executor=environment.executor_id, why=why)
        self._outcasts.add(environment.executor_id)
        self._begin(self._drive_out(environment, why))

    async def _drive_out(self, environment: ExecutionEnvironment, why: str) -> None:
        assert self.end_executor is not None
        await self.end_executor(environment, f"it broke the protocol ({why})")

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("intake_failed", exc_info=error)

    async def settled(self) -> None:
        """Wait until nothing is under way."""
        while self._work:
            await asyncio.wait(self._work)
        await self._refused.settled()
