"""May this tool run? Durable questions, each answered once: by a rule, a person or its time-out.

Invariants:
- a question is stored before anybody is told of it, and its answer before the agent hears it;
- the first answer counts; a later one is refused and changes nothing;
- a question asked again, by the same task with the same request_id, is the same question.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from agor.daemon.services import access, views
from agor.daemon.services.access import Action
from agor.daemon.services.line import Entry
from agor.daemon.services.live import LiveSession, LiveSessions, Turn
from agor.daemon.services.permissions.answers import Answers, by_itself, decided, move
from agor.daemon.services.permissions.questions import Pending, Questions, answer_of
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.rules.book import Verdict
from agor.daemon.services.rules.past import question_of
from agor.daemon.services.rules.rules import Rules
from agor.daemon.services.runs import Run
from agor.daemon.services.stamps import new_id, time_of
from agor.daemon.store import permissions
from agor.daemon.store.base import Store
from agor.daemon.store.rows import PermissionRow, TaskRow
from agor.errors import (
    Conflict,
    InvalidParams,
    NotFound,
    StoreUnavailable,
    UnknownTask,
    Unprocessable,
)
from agor.protocol.api import Decision, Page, Permission, PermissionStatus
from agor.protocol.methods import RequestPermissionParams, RequestPermissionResult
from agor.protocol.people import Whose
from agor.protocol.validation import quoted

log = structlog.get_logger("agor.permissions")

#: Questions of one task that may be open at once, and their bytes.
_MOST_PENDING = 100
_MOST_BYTES = 8 * 1024 * 1024
#: Seconds between two attempts while the store cannot be used.
_PAUSE = 0.5


class Permissions:
    """Questions and answers."""

    def __init__(self, store: Store, lives: LiveSessions, rules: Rules, timeout_ms: int) -> None:
        self._store = store
        self._lives = lives
        self._rules = rules
        self._timeout_ms = timeout_ms
        self.questions = Questions()
        self._answers = Answers(self.questions, rules, timeout_ms)

    def restore(self, row: PermissionRow, live: LiveSession) -> None:
        """Take in a question that was open when the last daemon ended.

        It may have ended between making a rule and deciding by it all that was open.
        """
        self._answers.judge_pending(self.questions.open(row, live))

    # ── the agent's side ─────────────────────────────────────────────────────────────────────

    async def ask(self, run: Run, params: RequestPermissionParams) -> RequestPermissionResult:
        """Put a question, or join one that was put before, and wait for its answer."""
        known = await self._look_up(run, params)
        while known is None:
            try:
                async with Turn(run.live, patience=None) as live:
                    # Somebody may have put it while we waited for our turn.
                    known = self.questions.asked((params.task_id, params.request_id))
                    if known is None:
                        _check_runs(run, live)
                        known = await self._put(live, params)
            except _NotNow:
                # By then the rule may hold no more: it is looked up again.
                await asyncio.wait((run.ended,), timeout=_PAUSE)
        if isinstance(known, Pending):
            return answer_of(await asyncio.shield(known.answer))
        return known

    async def _look_up(
        self, run: Run, params: RequestPermissionParams
    ) -> Pending | RequestPermissionResult | None:
        """Find a question that was put before, by this daemon or an earlier one."""
        while True:
            known = self.questions.asked((params.task_id, params.request_id))
            if known is not None or run.ended.done():
                return known
            try:
                row = await permissions.by_request(self._store, params.task_id, params.request_id)
            except StoreUnavailable:
                # The agent has time: it waits for a person anyway.
                await asyncio.wait((run.ended,), timeout=_PAUSE)
                continue
            if row is None or row.status != "pending":
                return None if row is None else answer_of(row)
            # It may have been put and even answered while we read; else it was stored, and whoever
            # put it did not live to see it.
            async with Turn(run.live, patience=None) as live:
                known = self.questions.asked((params.task_id, params.request_id))
                if known is None:
                    _check_runs(run, live)
                    known = self.questions.open(row, live)
                return known

    async def _put(
        self, live: LiveSession, params: RequestPermissionParams
    ) -> Pending | RequestPermissionResult:
        current = live.current
        assert current is not None
        row = _new_question(live, params, self._timeout_ms)
        session = live.row
        verdict = self._rules.judge(
            question_of(row, session.user_id, session.workspace, current.permission_mode)
        )
        if verdict is not None:
            return await self._put_decided(live, current, row, verdict)
        self._check_room(row)
        entry = Entry([permissions.insert(row)], patient=True)
        entry.tell("permission", row.task_id, views.permission(row))
        if current.status == "running":
            current = move(current, "awaiting_permission", entry)
        await live.commit(entry, current=current, queue=live.queue)
        log.info("permission_requested", permission=row.permission_id, tool=row.tool_name)
        return self.questions.open(row, live)

    async def _put_decided(
        self, live: LiveSession, current: TaskRow, asked: PermissionRow, verdict: Verdict
    ) -> RequestPermissionResult:
        """Put a question together with its answer."""
        row = msgspec.structs.replace(asked, decided_at=asked.created_at, **by_itself(verdict))
        entry = Entry([permissions.insert(row)])
        entry.records.append(decided(row, None))
        entry.tell("permission", row.task_id, views.permission(row))
        try:
            await live.commit(entry, current=current, queue=live.queue)
        except StoreUnavailable as error:
            raise _NotNow from error
        self.questions.remember(row)
        log.info("permission_decided", permission=row.permission_id, by=verdict.by)
        return answer_of(row)

    def _check_room(self, row: PermissionRow) -> None:
        pending = self.questions.of_task(row.task_id)
        if len(pending) >= _MOST_PENDING:
            raise Conflict(f"{_MOST_PENDING} questions of this task are open already")
        held = sum(len(each.row.tool_input) for each in pending)
        if held + len(row.tool_input) > _MOST_BYTES:
            raise InvalidParams(f"the open questions of a task have at most {_MOST_BYTES} bytes")

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
        """Answer a question, and those to come if the answer has a scope; the first one counts."""
        row = await self._find(who, permission_id, "permission.decide")
        pending = self.questions.get(permission_id) or await self._just_put(row)
        if pending is None:
            raise _too_late(await self._find(who, permission_id, "session.view"))
        _check(decision)
        rule = None
        if decision.scope != "once":
            rule = await self._rules.draft_from_answer(who, decision, row, pending.live)
        updated = decision.updated_input
        answer = {
            "status": "approved" if decision.approved else "denied",
            "decided_by": who.user_id,
            "reason": decision.reason,
            "updated_input": None if updated is None else msgspec.json.encode(updated),
        }
        stored = await self._answers.decide(pending, answer, who, receipt, rule)
        if stored is None:
            raise _too_late(await self._find(who, permission_id, "session.view"))
        return views.permission(stored)

    async def _just_put(self, row: PermissionRow) -> Pending | None:
        """Find a question that can be seen already, while whoever puts it is about to know."""
        if row.status != "pending":
            return None
        async with Turn(await self._lives.get(row.session_id)):
            return self.questions.get(row.permission_id)

    async def _find(self, who: Principal, permission_id: str, action: Action) -> PermissionRow:
        row = await permissions.get(self._store, permission_id)
        missing = NotFound(f"there is no permission request {quoted(permission_id)}")
        if row is None:
            raise missing
        try:
            await self._lives.get_for(who, row.session_id, action)
        except NotFound:
            # Its session has another name: to tell it would tell that there is such a request.
            raise missing from None
        return row


class _NotNow(Exception):
    """The store could not take an answer that a rule gave."""


def _check_runs(run: Run, live: LiveSession) -> None:
    """Refuse a question of a task that has ended or has reported its result.

    `live.lock` is held by the caller: a question is never open behind the end of its task.
    """
    current = live.current
    if current is None or current.task_id != run.task_id or run.result is not None:
        raise UnknownTask("this task has ended")


def _new_question(
    live: LiveSession, params: RequestPermissionParams, timeout_ms: int
) -> PermissionRow:
    try:
        tool_input = msgspec.json.encode(params.tool_input)
    except (ValueError, RecursionError):
        raise InvalidParams("params.tool_input: cannot be written as JSON again") from None
    if len(tool_input) > _MOST_BYTES:
        raise InvalidParams(f"params.tool_input: more than {_MOST_BYTES} bytes")
    permission_id = new_id()
    created = time_of(permission_id)
    return PermissionRow(
        permission_id=permission_id,
        user_id=live.row.user_id,
        session_id=live.session_id,
        task_id=params.task_id,
        request_id=params.request_id,
        tool_name=params.tool_name,
        tool_input=tool_input,
        tool_use_id=params.tool_use_id,
        status="pending",
        created_at=created,
        expires_at=created + timeout_ms,
        decided_at=None,
        decided_by=None,
        reason=None,
        updated_input=None,
    )


def _check(decision: Decision) -> None:
    """Refuse an answer that cannot mean what it says."""
    if decision.scope == "once" and decision.rule is not None:
        raise Unprocessable(
            "body.rule: a rule is for more than this once",
            hint="Give a scope as well: session, workspace or user.",
        )
    if decision.scope != "once" and decision.updated_input is not None:
        raise Unprocessable(
            "body.updated_input: a changed input is for this once",
            hint="A rule can say yes or no, and changes nothing.",
        )


def _too_late(row: PermissionRow) -> Conflict:
    how = {"cancelled": "its task has ended", "timed_out": "it has timed out"}
    return Conflict(
        f"this permission request was decided before: {how.get(row.status, row.status)}",
        hint="The first answer counts; GET /permissions/{id} shows it.",
    )
