"""What executors tell and ask: their events into the feed, their questions to whom they concern.

Nothing that an executor says is believed. Every call carries a token that must fit the executor,
the task and the session; sequences must follow each other. An executor that breaks a rule is ended,
which harms its own task and nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

import msgspec
import structlog
from msgspec import Raw

from agor.daemon.pool.ending import Ending
from agor.daemon.services.finish import Finisher, result_of
from agor.daemon.services.keys import Keys
from agor.daemon.services.permissions import Permissions
from agor.daemon.services.runs import Run, Runs, StreamEntry
from agor.daemon.services.stamps import now
from agor.daemon.services.tokens import Tokens, hash_of
from agor.daemon.store import tokens as token_rows
from agor.daemon.store.base import Store, Write
from agor.errors import InvalidParams, RpcError, StoreUnavailable, UnknownTask
from agor.execution import ExecutionEnvironment
from agor.protocol.events import (
    BlockComplete,
    BlockStart,
    BlockUpdate,
    MetadataUpdate,
    Problem,
    TaskResult,
    decode_event,
)
from agor.protocol.methods import (
    GetApiKeyParams,
    GetApiKeyResult,
    ReportMessageParams,
    RequestPermissionParams,
    RequestPermissionResult,
)
from agor.protocol.validation import UNREADABLE, name_the_field

log = structlog.get_logger("agor.intake")

_decode = msgspec.json.Decoder(ReportMessageParams).decode
_MARKS = (BlockStart, BlockUpdate, BlockComplete, TaskResult)
#: Seconds, and bytes, of events that are acknowledged together.
_ACK_AFTER = 0.25
_ACK_BYTES = 256 * 1024
#: Characters of a dead executor's last words that are shown.
_LAST_WORDS = 2000

#: Ends an executor: its id, and why.
EndExecutor = Callable[[ExecutionEnvironment, str], Awaitable[object]]


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
        # What an honest executor may have sent without an answer, and some more.
        self._most_held = 2 * outbox_bytes + 2 * max_line
        #: So much is acknowledged at once, long before an outbox is full.
        self._ack_bytes = min(_ACK_BYTES, outbox_bytes // 4)
        self._work: set[asyncio.Task[None]] = set()
        #: Those that are being ended; nothing of theirs is taken any more.
        self._outcasts: set[str] = set()
        #: Set by whoever joins us with the pool.
        self.end_executor: EndExecutor | None = None

    # ── events ───────────────────────────────────────────────────────────────────────────────

    def take_events(self, environment: ExecutionEnvironment, events: list[Raw]) -> None:
        """Take events as they came; they are acknowledged once they are stored."""
        if environment.executor_id in self._outcasts:
            return
        try:
            self._take(environment, events)
        except UNREADABLE as error:
            self._cast_out(environment, name_the_field(error, "params"))
        except RpcError as error:
            self._cast_out(environment, error.message)

    def _take(self, environment: ExecutionEnvironment, raws: list[Raw]) -> None:
        end = b',"created_at":%d}' % now()
        token = task_id = None
        writer: _Writer | None = None
        strangers: dict[tuple[str, str], int] = {}
        try:
            for raw in raws:
                event = _decode(raw)
                if event.task_id != task_id or event.session_token != token:
                    if writer is not None:
                        done, writer = writer, None
                        self._hand_in(done)
                    token, task_id = event.session_token, event.task_id
                    writer = self._writer(environment, token, task_id, end)
                if writer is None:
                    strangers[token or "", task_id or ""] = event.sequence
                else:
                    writer.add(event)
        finally:
            if writer is not None:
                self._hand_in(writer)
        for (token, task_id), sequence in strangers.items():
            self._begin(self._settle_stranger(environment, token, task_id, sequence))

    def _writer(
        self, environment: ExecutionEnvironment, token: str, task_id: str, end: bytes
    ) -> _Writer | None:
        run = self._runs.get(task_id)
        if run is None:
            return None
        self._tokens.check(token, environment.executor_id, task_id)
        return _Writer(run, environment, end)

    def _hand_in(self, writer: _Writer) -> None:
        run, entry = writer.run, writer.entry
        if run.held > self._most_held:
            raise InvalidParams(f"more than {self._most_held} bytes came without acknowledgement")
        if writer.fresh and entry.events:
            run.live.channel.line.append(entry)
            entry.done.add_done_callback(lambda done: self._stored(writer, done))
        elif writer.repeated and run.stored:
            self._acknowledge(run, writer.environment)
        if writer.result is not None:
            run.result = writer.result
            self._begin(self._end(run, writer.result))

    def _stored(self, writer: _Writer, done: asyncio.Future[int]) -> None:
        run, entry = writer.run, writer.entry
        run.held -= entry.size
        if done.cancelled() or isinstance(done.exception(), StoreUnavailable):
            # The daemon is ending; the next one gets them again.
            return
        if done.exception() is not None:
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

    async def _end(self, run: Run, result: TaskResult) -> None:
        current = run.live.current
        if current is not None and current.status == "stopping":
            # Whoever stops it ends it too, once nothing of it is left.
            return
        await self._finisher.finish(run, result)

    async def _settle_stranger(
        self, environment: ExecutionEnvironment, token: str, task_id: str, sequence: int
    ) -> None:
        """Let go of events of a task that has ended; anybody else does not get away with them."""
        row = await token_rows.get(self._store, hash_of(token))
        if row is None or row.task_id != task_id or row.executor_id != environment.executor_id:
            self._cast_out(environment, "its session token is not known")
        elif self._runs.get(task_id) is None:
            environment.acknowledge(task_id, sequence)

    # ── questions ────────────────────────────────────────────────────────────────────────────

    async def get_api_key(
        self, environment: ExecutionEnvironment, params: GetApiKeyParams
    ) -> GetApiKeyResult:
        """Give a key to a task, or refuse."""
        grant = self._tokens.check(params.session_token, environment.executor_id)
        await self._store.commit(Write([self._tokens.use(grant)]))
        return await self._keys.get(grant.row, params.credential_key)

    async def request_permission(
        self, environment: ExecutionEnvironment, params: RequestPermissionParams
    ) -> RequestPermissionResult:
        """Ask whoever may decide it."""
        self._tokens.check(params.session_token, environment.executor_id, params.task_id)
        run = self._runs.get(params.task_id)
        if run is None:
            raise UnknownTask("this task has ended")
        return await self._permissions.ask(run, params)

    # ── ends ─────────────────────────────────────────────────────────────────────────────────

    def executor_ended(self, ending: Ending) -> None:
        """An executor is gone: so is what it had under way."""
        self._outcasts.discard(ending.executor_id)
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


class _Writer:
    """Puts one task's events of one read into an entry."""

    def __init__(self, run: Run, environment: ExecutionEnvironment, end: bytes) -> None:
        self.run = run
        self.environment = environment
        self._end = end
        self.result: TaskResult | None = None
        self.repeated = False
        self._heads: dict[str, bytes] = {}
        last = run.live.channel.line.last
        #: What is not being committed yet takes more of the same task: one commit, one answer.
        open_entry = last if isinstance(last, StreamEntry) and last.run is run else None
        self.fresh = open_entry is None
        self.entry = open_entry or StreamEntry(run)

    def add(self, event: ReportMessageParams) -> None:
        """Take the next event, unless we have it."""
        run, sequence, kind = self.run, event.sequence, event.event_type
        if sequence <= run.taken:
            self.repeated = True
            return
        if sequence != run.taken + 1 or run.result is not None or self.result is not None:
            raise InvalidParams(
                f"params.sequence: {sequence} does not follow {run.taken}, or the task has ended"
            )
        data: bytes | Raw = event.event_data
        if b"\r" in bytes(data):
            # White space in JSON, but the end of a line for some who read the feed.
            data = msgspec.json.encode(msgspec.json.decode(data))
        if kind != "block_delta":
            self._note(kind, bytes(data))
        head = self._heads.get(kind)
        if head is None:
            head = self._heads[kind] = b',"type":"%b","task_id":%b,"data":' % (
                kind.encode(), msgspec.json.encode(run.task_id),
            )  # fmt: skip
        spelled = b"%b%b%b" % (head, data, self._end)
        run.taken = self.entry.upto = sequence
        run.held += len(spelled)
        self.entry.add(spelled)

    def _note(self, kind: str, data: bytes) -> None:
        event = decode_event(kind, data)
        if isinstance(event, _MARKS):
            self.entry.mark(event, data)
        if isinstance(event, TaskResult):
            self.result = event
        elif isinstance(event, MetadataUpdate) and event.agent_session_id is not None:
            self.run.agent_session_id = event.agent_session_id


def describe_loss(ending: Ending) -> Problem:
    """Say how an executor ended, to whoever wanted something of it."""
    words = ending.stderr_tail.strip()[-_LAST_WORDS:]
    hint = f"Its last words:\n{words}" if words else None
    return Problem("executor_failed", f"the executor ended: {ending.in_words}", hint)
