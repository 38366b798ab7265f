"""The one place that numbers a session's events, but for the first: it is stored with the session.

Whatever else is to appear in a session's feed is appended here. Entries that come while a commit is
under way are committed together in the next one; then, and only then, followers are told.

Invariants:
- sequences start at 1, have no gap, and are given in the order of `append`;
- nobody is told of what is not committed, and everybody is told of all that is, in order;
- if the store cannot write, an entry that is patient keeps its place and is tried again; any other
  fails at once, and so nothing that failed is ever committed later;
- what is not urgent by itself waits a moment for what is: it would only delay the commit of that;
- the event that ends a task is the last one of that task: an entry that would add another behind it
  is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import structlog

from agor.daemon.services.stamps import now
from agor.daemon.store.base import EventRun, Statement, Store, Write
from agor.daemon.store.rows import AuditRecord
from agor.errors import StoreUnavailable

log = structlog.get_logger("agor.feed")

#: Events and bytes of one commit; entries are not cut, so one entry may be more.
_MOST_EVENTS = 4096
_MOST_BYTES = 1024 * 1024
#: Seconds between two attempts while the store cannot write.
_RETRY_PAUSE = 0.5
#: Seconds that what is not urgent waits for something that is.
_LINGER = 0.002

_encode = msgspec.json.encode

#: Gives the statements that go with an entry, from the sequence of its first event.
MakeStatements = Callable[[int], Sequence[Statement]]


def spelled(event_type: str, task_id: str | None, data: bytes, at: int) -> bytes:
    """Spell an event as its clients get it, from behind its sequence."""
    task = b"null" if task_id is None else _encode(task_id)
    return b',"type":"%b","task_id":%b,"data":%b,"created_at":%d}' % (
        event_type.encode(), task, data, at,
    )  # fmt: skip


def numbered(sequence: int, event: bytes) -> bytes:
    """Put the sequence before the rest of an event."""
    return b'{"sequence":%d%b' % (sequence, event)


class Entry:
    """What is appended together: events, and the statements that go with them."""

    __slots__ = (
        "_statements",
        "begun",
        "done",
        "ended",
        "events",
        "make_statements",
        "patient",
        "records",
        "size",
        "tasks",
        "urgent",
    )

    def __init__(
        self,
        statements: Sequence[Statement] = (),
        *,
        patient: bool = False,
        make_statements: MakeStatements | None = None,
    ) -> None:
        #: Everything of each event behind its sequence.
        self.events: list[bytes] = []
        self.size = 0
        #: The tasks that its events belong to; those of them that begin and that end with it.
        self.tasks: set[str] = set()
        self.begun: set[str] = set()
        self.ended: set[str] = set()
        self._statements = list(statements)
        #: For the audit log.
        self.records: list[AuditRecord] = []
        self.make_statements = make_statements
        self.patient = patient
        #: Whether anybody waits for it; else it is as good a moment later, with what comes next.
        self.urgent = True
        #: The sequence of its last event, once it is durable.
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def tell(self, event_type: str, task_id: str | None, data: Any) -> None:
        """Add an event of the daemon's own."""
        if task_id is not None:
            _refuse_after_end(self.ended & {task_id})
            self.tasks.add(task_id)
        self.add(spelled(event_type, task_id, _encode(data), now()))

    def begin_task(self, task_id: str, data: Any) -> None:
        """Add the first event of a new task."""
        self.begun.add(task_id)
        self.tell("task", task_id, data)

    def end_task(self, task_id: str, data: Any) -> None:
        """Add the last event of a task; no other event of that task may follow."""
        self.tell("task", task_id, data)
        self.ended.add(task_id)

    def add(self, event: bytes) -> None:
        """Add an event that is spelled already."""
        self.events.append(event)
        self.size += len(event)

    def also(self, *statements: Statement) -> None:
        """Add statements."""
        self._statements += statements

    def statements(self, first: int) -> Sequence[Statement]:
        """Give all statements, given the sequence of the first event."""
        if self.make_statements is None:
            return self._statements
        return [*self._statements, *self.make_statements(first)]


class Line:
    """The events of one session, on their way into the store and from there to followers."""

    def __init__(
        self,
        number: int,
        committed: int,
        store: Store,
        publish: Callable[[int, list[bytes]], None],
    ) -> None:
        self._number = number
        #: The last sequence that is durable.
        self.committed = committed
        self._store = store
        self._publish = publish
        #: The tasks that may still have events: none that ends with an entry that was appended.
        self.open_tasks: set[str] = set()
        self._waiting: deque[Entry] = deque()
        self._work: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._urged = asyncio.Event()
        self._patient = True
        #: So many of the next are committed alone: one of them cannot be stored.
        self._one_by_one = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return self._work is None

    @property
    def last(self) -> Entry | None:
        """The entry that was appended last, if no commit of it has begun."""
        return self._waiting[-1] if self._waiting else None

    def append(self, entry: Entry) -> asyncio.Future[int]:
        """Put an entry at the end; the future tells when it is durable."""
        _refuse_after_end(entry.tasks - entry.begun - self.open_tasks)
        self.open_tasks |= entry.begun
        self.open_tasks -= entry.ended
        self._waiting.append(entry)
        if self._work is None:
            self._work = asyncio.create_task(self._run())
        elif not entry.patient:
            self._hurry.set()
        if entry.urgent:
            self._urged.set()
        return entry.done

    def urge(self) -> None:
        """An entry that waits here has become urgent."""
        self._urged.set()

    def hasten(self, entry: Entry) -> None:
        """Have an entry fail if the store cannot write: nobody has time to wait for it now."""
        entry.patient = False
        self._hurry.set()

    async def flushed(self) -> None:
        """Wait until all that was appended is durable or has failed."""
        while self._work is not None:
            await asyncio.wait((self._work,))

    def give_up(self) -> None:
        """Stop being patient: the daemon ends. What is not stored is sent again to the next one."""
        self._patient = False
        self._hurry.set()

    async def _run(self) -> None:
        try:
            while self._waiting:
                if not any(entry.urgent for entry in self._waiting):
                    await self._linger()
                await self._commit(self._take())
        finally:
            self._work = None
            # Nothing is left, unless we were cancelled: then nobody may wait for ever.
            while self._waiting:
                self._fail(self._waiting.popleft(), StoreUnavailable("the daemon has ended"))

    def _take(self) -> list[Entry]:
        if self._one_by_one:
            self._one_by_one -= 1
            return [self._waiting.popleft()]
        taken: list[Entry] = []
        events = size = 0
        while self._waiting and events < _MOST_EVENTS and size < _MOST_BYTES:
            entry = self._waiting.popleft()
            taken.append(entry)
            events += len(entry.events)
            size += entry.size
        return taken

    async def _commit(self, entries: list[Entry]) -> None:
        first = self.committed + 1
        try:
            statements, bodies = _spell(entries, first)
            events = [EventRun(self._number, first, bodies)] if bodies else []
            records = [record for entry in entries for record in entry.records]
            await self._store.commit(Write(statements, events, records))
        except StoreUnavailable as error:
            await self._hold(entries, error)
            return
        except asyncio.CancelledError:
            # The store was closed over it. Whoever waits must not wait for ever.
            for entry in entries:
                self._fail(entry, StoreUnavailable("the database was closed"))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody is told
            self._single_out(entries, error)
            return
        self.committed += len(bodies)
        if bodies:
            try:
                self._publish(first, bodies)
            except Exception:
                # It is stored; a bug of whoever is told must not hold the session up.
                log.exception("not_published", session_number=self._number)
        for entry in entries:
            first += len(entry.events)
            if not entry.done.done():
                entry.done.set_result(first - 1)

    def _single_out(self, entries: list[Entry], error: Exception) -> None:
        """One of them cannot be stored, ever. It fails, and the others must not with it."""
        if len(entries) > 1:
            self._waiting.extendleft(reversed(entries))
            self._one_by_one = len(entries)
            return
        log.error("not_stored", session_number=self._number, exc_info=error)
        self._fail(entries[0], error)

    async def _hold(self, entries: list[Entry], error: StoreUnavailable) -> None:
        """Fail those that will not wait, put the others back in their places, and pause."""
        kept = []
        for entry in entries:
            if entry.patient and self._patient:
                kept.append(entry)
            else:
                self._fail(entry, error.again())
        self._waiting.extendleft(reversed(kept))
        if kept:
            self._hurry.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), _RETRY_PAUSE)

    def _fail(self, entry: Entry, error: BaseException) -> None:
        if not entry.done.done():
            entry.done.set_exception(error)
            # Whoever appended it may no longer listen; the error was logged or is told to others.
            entry.done.exception()
        # Nothing of it is stored: its tasks have not begun, and have not ended.
        self.open_tasks |= entry.ended
        self.open_tasks -= entry.begun

    async def _linger(self) -> None:
        """Wait a moment for something urgent."""
        self._urged.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER):
                await self._urged.wait()


def _refuse_after_end(ended: set[str]) -> None:
    """Refuse events of tasks that have ended: to add one would be a bug of ours."""
    if ended:
        raise AssertionError(f"no event may follow the last one of a task: {', '.join(ended)}")


def _spell(entries: list[Entry], sequence: int) -> tuple[list[Statement], list[bytes]]:
    """Number the events, and put all together that is to be committed."""
    statements: list[Statement] = []
    bodies: list[bytes] = []
    for entry in entries:
        statements += entry.statements(sequence)
        for event in entry.events:
            bodies.append(numbered(sequence, event))
            sequence += 1
    return statements, bodies
