"""Sessions that something happens to, in memory: the truth about them, as far as it is committed.

Invariants:
- there is one `LiveSession` of a session at a time, for as long as anybody holds it;
- what it says is committed: a command decides under `lock`, commits, and then applies;
- the number of those kept without need is bounded.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from agor.daemon.metrics import Metrics
from agor.daemon.services import access, states, views
from agor.daemon.services.access import Action
from agor.daemon.services.feed import Channel
from agor.daemon.services.line import Entry, numbered
from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import not_before
from agor.daemon.store import events, sessions, shares, tasks
from agor.daemon.store.base import EventRun, Statement, Store, Write
from agor.daemon.store.rows import AuditRecord, SessionRow, TaskRow
from agor.errors import NotFound, StoreUnavailable
from agor.protocol.api import TaskStatus
from agor.protocol.people import ShareAccess
from agor.protocol.validation import quoted

#: Sessions that nobody uses now and that are kept, since they may be used again.
_KEPT = 128
#: Seconds that a command waits for the one before it on the same session.
_PATIENCE = 15.0


class LiveSession:
    """One session and its tasks that have not ended."""

    def __init__(
        self,
        row: SessionRow,
        channel: Channel,
        unfinished: list[TaskRow],
        shares: dict[str, ShareAccess],
    ) -> None:
        self.row = row
        #: Whom it is shared with, by their id.
        self.shares = shares
        self.channel = channel
        # While anything is on its way into the feed there must not be another one of us.
        channel.owner = self
        channel.line.open_tasks = {task.task_id for task in unfinished}
        self.lock = asyncio.Lock()
        #: The task that is being run, or about to be.
        self.current: TaskRow | None = None
        #: Those that wait, the next one first.
        self.queue: list[TaskRow] = []
        self.deleted = False
        for task in unfinished:
            if task.status in states.UNDER_WAY and self.current is None:
                self.current = task
            else:
                self.queue.append(task)

    @property
    def session_id(self) -> str:
        """Name it."""
        return self.row.session_id

    def check(self, who: Principal, action: Action) -> None:
        """Refuse who may not do this; to those who may not even look, it does not exist.

        What a share allows is checked again in one's turn: meanwhile it may be taken back.
        """
        tie = access.tie_to(who, self.row.user_id, self.shares)
        if access.may(who, action, tie):
            return
        if access.may(who, "session.view", tie):
            raise access.forbidden(who, action)
        raise NotFound(f"there is no session {quoted(self.session_id)}")

    def position_of(self, task_id: str) -> int | None:
        """Tell a task's place in the queue, from 1."""
        for place, task in enumerate(self.queue, 1):
            if task.task_id == task_id:
                return place
        return None

    # ── commands ─────────────────────────────────────────────────────────────────────────────

    async def commit(
        self,
        entry: Entry,
        *,
        current: TaskRow | None,
        queue: list[TaskRow],
        last: TaskStatus | None = None,
        **changes: object,
    ) -> None:
        """Commit a command's entry together with what it makes of the session, and apply it.

        `lock` is held by the caller, who is not cancelled before it is known how this ended.
        """
        archived = bool(changes.pop("archived", self.row.status == "archived"))
        if last is None and self.row.status == "failed":
            last = "failed"
        status = states.session_status(
            None if current is None else current.status, len(queue), last, archived=archived
        )
        if status != self.row.status or changes:
            row = msgspec.structs.replace(
                self.row, status=status, updated_at=not_before(self.row.updated_at), **changes
            )
            entry.also(sessions.update(row))
            entry.tell("session", None, views.session(row))
        else:
            row = self.row
        line = self.channel.line
        await outlast(line.append(entry), lambda: line.hasten(entry))
        self.row, self.current, self.queue = row, current, queue


async def outlast(commit: Awaitable[Any], hasten: Callable[[], None] = lambda: None) -> None:
    """Wait for a commit even if we are cancelled meanwhile: what follows from it must be applied.

    `hasten` has it fail if it cannot happen now. The cancellation is not lost: it comes at the next
    thing that is waited for.
    """
    done, cancelled = asyncio.ensure_future(commit), False
    while not done.done():
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            if not done.cancelled():
                cancelled = True
                hasten()
        except Exception:  # noqa: BLE001, S110 - it is raised below
            pass
    if cancelled and (task := asyncio.current_task()) is not None:
        asyncio.get_running_loop().call_soon(task.cancel)
    done.result()


class LiveSessions:
    """Those in memory; others are loaded when asked for."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._live: WeakValueDictionary[str, LiveSession] = WeakValueDictionary()
        self._kept: OrderedDict[str, LiveSession] = OrderedDict()
        self._loading: dict[str, asyncio.Task[LiveSession | None]] = {}
        #: The last ones that were made and not asked for since: they need not be loaded.
        self._new: dict[str, SessionRow] = {}
        self._last_number = 0

    async def open(self) -> None:
        """Learn where numbering goes on."""
        self._last_number = await sessions.last_number(self._store)

    def next_number(self) -> int:
        """Give a new session its number."""
        self._last_number += 1
        return self._last_number

    async def make(
        self, row: SessionRow, event: bytes, record: AuditRecord, *others: Statement
    ) -> None:
        """Store a new session with the first event of its feed.

        Nobody knows of it before it is stored, so there is nothing to be kept in order with.
        """
        first = EventRun(row.number, 1, [numbered(1, event)])
        write = Write([sessions.insert(row), *others], [first], [record])
        await outlast(self._store.commit(write))
        self._metrics.commits.add(1)
        # Whoever saw it in a list may have been faster than we are.
        if row.session_id not in self._live and row.session_id not in self._loading:
            self._new[row.session_id] = row
            if len(self._new) > _KEPT:
                del self._new[next(iter(self._new))]

    async def get(self, session_id: str) -> LiveSession:
        """Find a session; raises `NotFound`."""
        session = self._live.get(session_id)
        if session is None and (row := self._new.pop(session_id, None)) is not None:
            session = LiveSession(row, self._channel(row, 1), [], {})
        if session is None:
            loading = self._loading.get(session_id)
            if loading is None:
                loading = asyncio.create_task(self._load(session_id))
                self._loading[session_id] = loading
                loading.add_done_callback(lambda _: self._loading.pop(session_id, None))
            session = await asyncio.shield(loading)
        if session is None or session.deleted:
            raise NotFound(f"there is no session {quoted(session_id)}")
        return self._keep(session)

    async def get_for(self, who: Principal, session_id: str, action: Action) -> LiveSession:
        """Find a session that this person may do something to."""
        session = await self.get(session_id)
        session.check(who, action)
        return session

    async def channel_for(self, who: Principal, session_id: str) -> Channel:
        """Find the feed of a session that this person may look at."""
        return (await self.get_for(who, session_id, "session.view")).channel

    def forget(self, session: LiveSession) -> None:
        """A session is deleted."""
        session.deleted = True
        self._kept.pop(session.session_id, None)
        self._live.pop(session.session_id, None)
        session.channel.close()

    def held(self) -> list[LiveSession]:
        """List those in memory."""
        return list(self._live.values())

    async def _load(self, session_id: str) -> LiveSession | None:
        row = await sessions.get(self._store, session_id)
        if row is None:
            return None
        unfinished = await tasks.of_session_unfinished(self._store, session_id)
        committed = await events.last_sequence(self._store, row.number)
        shared = {
            each.user_id: each.access for each in await shares.of_session(self._store, session_id)
        }
        return self._keep(LiveSession(row, self._channel(row, committed), unfinished, shared))

    def _channel(self, row: SessionRow, committed: int) -> Channel:
        return Channel(row.number, self._store, committed, self._metrics)

    def _keep(self, session: LiveSession) -> LiveSession:
        session_id = session.session_id
        self._live[session_id] = session
        self._kept[session_id] = session
        self._kept.move_to_end(session_id)
        while len(self._kept) > _KEPT:
            # Whoever works with it holds it as well, and then it stays.
            self._kept.popitem(last=False)
        return session


class Turn:
    """One command's turn on a session; waits for those before it, within bounds."""

    def __init__(self, session: LiveSession, *, patience: float | None = _PATIENCE) -> None:
        self._session = session
        self._patience = patience

    async def __aenter__(self) -> LiveSession:
        try:
            await asyncio.wait_for(self._session.lock.acquire(), self._patience)
        except TimeoutError:
            raise StoreUnavailable(
                "the session is busy: what was asked before has not been stored yet",
                hint="The database may not be able to write now; try again later.",
            ) from None
        if self._session.deleted:
            self._session.lock.release()
            raise NotFound(f"there is no session {quoted(self._session.session_id)}")
        return self._session

    async def __aexit__(self, *_: object) -> None:
        self._session.lock.release()
