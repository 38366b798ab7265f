"""May this tool run? Durable questions, each answered once, by a person or by its time-out.

Invariants:
- a question is stored before anybody is told of it, and its answer before the agent hears it;
- the first answer counts; a later one is refused and changes nothing;
- a question asked again, by the same task with the same request_id, is the same question.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog

from agor.daemon.services import access, views
from agor.daemon.services.access import Action
from agor.daemon.services.line import Entry
from agor.daemon.services.live import LiveSession, LiveSessions, Turn
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.runs import Run
from agor.daemon.services.stamps import new_id, now
from agor.daemon.store import permissions, tasks
from agor.daemon.store.base import Store
from agor.daemon.store.rows import PermissionRow, TaskRow
from agor.errors import (
    AgorError,
    Conflict,
    InvalidParams,
    NotFound,
    StoreUnavailable,
    UnknownTask,
)
from agor.protocol.api import Decision, Page, Permission, PermissionStatus
from agor.protocol.methods import RequestPermissionParams, RequestPermissionResult
from agor.protocol.people import Whose
from agor.protocol.validation import quoted

log = structlog.get_logger("agor.permissions")

#: Questions of one task that may be open at once, and their bytes.
_MOST_PENDING = 100
_MOST_BYTES = 8 * 1024 * 1024
#: Seconds between two attempts while the store cannot be read.
_PAUSE = 0.5


class _Pending:
    """A question without an answer, and those who wait for it."""

    def __init__(self, row: PermissionRow, live: LiveSession) -> None:
        self.row = row
        self.live = live
        self.answer: asyncio.Future[PermissionRow] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None


class Permissions:
    """Questions and answers."""

    def __init__(self, store: Store, lives: LiveSessions, timeout_ms: int) -> None:
        self._store = store
        self._lives = lives
        self._timeout_ms = timeout_ms
        self._pending: dict[str, _Pending] = {}
        #: Questions of tasks that have not ended, as they stand, by task and request_id.
        self._asked: dict[tuple[str, str], PermissionRow] = {}
        self._work: set[asyncio.Task[None]] = set()

    def restore(self, row: PermissionRow, live: LiveSession) -> None:
        """Take in a question that was open when the last daemon ended."""
        self._open(row, live)

    def close(self) -> None:
        """Let open questions be, for the daemon after us."""
        for pending in self._pending.values():
            if pending.timer is not None:
                pending.timer.cancel()

    # ── the agent's side ─────────────────────────────────────────────────────────────────────

    async def ask(self, run: Run, params: RequestPermissionParams) -> RequestPermissionResult:
        """Put a question, or join one that was put before, and wait for its answer."""
        row = await self._look_up(run, params)
        if row is None:
            async with Turn(run.live, patience=None) as live:
                # Somebody may have put it while we waited for our turn.
                row = self._asked.get((params.task_id, params.request_id))
                if row is None:
                    row = await self._put(live, params)
        if row.status == "pending" and row.permission_id not in self._pending:
            # It was stored, and whoever put it did not live to see it.
            self._open(row, run.live)
        pending = self._pending.get(row.permission_id)
        if pending is not None:
            row = await asyncio.shield(pending.answer)
        return _answer(row)

    async def _look_up(self, run: Run, params: RequestPermissionParams) -> PermissionRow | None:
        """Find a question that was put before, by this daemon or an earlier one."""
        while True:
            known = self._asked.get((params.task_id, params.request_id))
            if known is not None or run.ended.done():
                return known
            try:
                return await permissions.by_request(self._store, params.task_id, params.request_id)
            except StoreUnavailable:
                # The agent has time: it waits for a person anyway.
                await asyncio.wait((run.ended,), timeout=_PAUSE)

    async def _put(self, live: LiveSession, params: RequestPermissionParams) -> PermissionRow:
        current = live.current
        if current is None or current.task_id != params.task_id:
            raise UnknownTask("this task has ended")
        if len(self._of(params.task_id)) >= _MOST_PENDING:
            raise Conflict(f"{_MOST_PENDING} questions of this task are open already")
        try:
            tool_input = msgspec.json.encode(params.tool_input)
        except (ValueError, RecursionError):
            raise InvalidParams("params.tool_input: cannot be written as JSON again") from None
        held = sum(len(each.row.tool_input) for each in self._of(params.task_id))
        if held + len(tool_input) > _MOST_BYTES:
            raise InvalidParams(f"the open questions of a task have at most {_MOST_BYTES} bytes")
        created = now()
        row = PermissionRow(
            permission_id=new_id(),
            session_id=live.session_id,
            task_id=params.task_id,
            request_id=params.request_id,
            tool_name=params.tool_name,
            tool_input=tool_input,
            tool_use_id=params.tool_use_id,
            status="pending",
            created_at=created,
            expires_at=created + self._timeout_ms,
            decided_at=None,
            decided_by=None,
            reason=None,
            updated_input=None,
        )
        entry = Entry([permissions.insert(row)], patient=True)
        entry.tell("permission", row.task_id, views.permission(row))
        if current.status == "running":
            current = _move(current, "awaiting_permission", entry)
        await live.commit(entry, current=current, queue=live.queue)
        self._asked[row.task_id, row.request_id] = row
        self._open(row, live)
        log.info("permission_requested", permission=row.permission_id, tool=row.tool_name)
        return row

    def _open(self, row: PermissionRow, live: LiveSession) -> None:
        pending = self._pending[row.permission_id] = _Pending(row, live)
        seconds = max(0, row.expires_at - now()) / 1000
        pending.timer = asyncio.get_running_loop().call_later(
            seconds, self._begin_time_out, row.permission_id
        )

    # ── people's side ────────────────────────────────────────────────────────────────────────

    async def page(
        self,
        who: Principal,
        whose: Whose | None,
        status: PermissionStatus | None,
        cursor: str | None,
        limit: int,
    ) -> Page[Permission]:
        """List questions, the newest first."""
        circle = access.circle_of(who, whose)
        before = views.read_cursor(cursor)
        rows = await permissions.page(self._store, circle, status, before, limit + 1)
        return views.page(
            rows, limit, views.permission,
            lambda row: (row.created_at, row.permission_id), lambda row: len(row.tool_input),
        )  # fmt: skip

    async def get(self, who: Principal, permission_id: str) -> Permission:
        """Show one question."""
        return views.permission(await self._find(who, permission_id, "session.view"))

    async def decide(
        self, who: Principal, permission_id: str, decision: Decision, receipt: Receipt | None = None
    ) -> Permission:
        """Answer a question; the first answer counts."""
        row = await self._find(who, permission_id, "permission.decide")
        pending = self._pending.get(permission_id)
        if pending is None:
            raise _too_late(row)
        updated = decision.updated_input
        decided = await self._decide(
            pending,
            {
                "status": "approved" if decision.approved else "denied",
                "decided_by": who.user_id,
                "reason": decision.reason,
                "updated_input": None if updated is None else msgspec.json.encode(updated),
            },
            receipt,
        )
        if decided is None:
            raise _too_late(await self._find(who, permission_id, "session.view"))
        return views.permission(decided)

    async def _find(self, who: Principal, permission_id: str, action: Action) -> PermissionRow:
        row = await permissions.get(self._store, permission_id)
        if row is not None:
            await self._lives.get_for(who, row.session_id, action)
            return row
        raise NotFound(f"there is no permission request {quoted(permission_id)}")

    # ── answers ──────────────────────────────────────────────────────────────────────────────

    async def _decide(
        self, pending: _Pending, answer: dict[str, Any], receipt: Receipt | None = None
    ) -> PermissionRow | None:
        """Store an answer and give it to the agent. None if there is one already."""
        permission_id = pending.row.permission_id
        async with Turn(pending.live) as live:
            if self._pending.get(permission_id) is not pending:
                return None
            row = msgspec.structs.replace(pending.row, decided_at=now(), **answer)
            entry = Entry([permissions.decide(row)])
            if receipt is not None:
                entry.also(receipt.statement(200, views.permission(row)))
            entry.tell("permission", row.task_id, views.permission(row))
            current = live.current
            waiting = current is not None and current.status == "awaiting_permission"
            if current is not None and waiting and len(self._of(row.task_id)) == 1:
                current = _move(current, "running", entry)
            await live.commit(entry, current=current, queue=live.queue)
            self._settle(pending, row)
        log.info("permission_decided", permission=permission_id, status=row.status)
        return row

    def _begin_time_out(self, permission_id: str) -> None:
        if (pending := self._pending.get(permission_id)) is not None:
            task = asyncio.create_task(self._time_out(pending))
            self._work.add(task)
            task.add_done_callback(self._work.discard)

    async def _time_out(self, pending: _Pending) -> None:
        reason = f"nobody answered within {self._timeout_ms / 1000:g} s"
        try:
            await self._decide(pending, {"status": "timed_out", "reason": reason})
        except AgorError as error:
            # The store cannot write now. The question stays, and so does its time-out.
            log.warning("time_out_not_stored", why=error.message)
            loop = asyncio.get_running_loop()
            pending.timer = loop.call_later(1.0, self._begin_time_out, pending.row.permission_id)

    def withdraw(self, task_id: str, entry: Entry) -> list[PermissionRow]:
        """Its task ends: nobody waits for an answer any more."""
        rows = []
        for pending in self._of(task_id):
            row = msgspec.structs.replace(
                pending.row, status="cancelled", decided_at=now(), reason="its task has ended"
            )
            entry.also(permissions.decide(row))
            entry.tell("permission", task_id, views.permission(row))
            rows.append(row)
        return rows

    def withdrawn(self, rows: list[PermissionRow]) -> None:
        """Apply what `withdraw` has prepared, now that it is stored."""
        for row in rows:
            if (pending := self._pending.get(row.permission_id)) is not None:
                self._settle(pending, row)

    def forget(self, task_id: str) -> None:
        """A task has ended: nobody asks for it again."""
        for key in [key for key in self._asked if key[0] == task_id]:
            del self._asked[key]

    def _settle(self, pending: _Pending, row: PermissionRow) -> None:
        del self._pending[row.permission_id]
        self._asked[row.task_id, row.request_id] = row
        if pending.timer is not None:
            pending.timer.cancel()
        pending.answer.set_result(row)

    def _of(self, task_id: str) -> list[_Pending]:
        return [each for each in self._pending.values() if each.row.task_id == task_id]


def _move(task: TaskRow, status: Any, entry: Entry) -> TaskRow:
    moved: TaskRow = msgspec.structs.replace(task, status=status)
    entry.also(tasks.update(moved))
    entry.tell("task", task.task_id, views.task_state(moved))
    return moved


def _answer(row: PermissionRow) -> RequestPermissionResult:
    updated = None if row.updated_input is None else msgspec.json.decode(row.updated_input)
    return RequestPermissionResult(
        approved=row.status == "approved", reason=row.reason, updated_input=updated
    )


def _too_late(row: PermissionRow) -> Conflict:
    how = {"cancelled": "its task has ended", "timed_out": "it has timed out"}
    return Conflict(
        f"this permission request was decided before: {how.get(row.status, row.status)}",
        hint="The first answer counts; GET /permissions/{id} shows it.",
    )
