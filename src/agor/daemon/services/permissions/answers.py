"""Answers to permission requests: stored first, then given to the agent. The first one counts.

A person gives it, or a rule that was made meanwhile, or the time that is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import structlog

from agor.daemon.services import views
from agor.daemon.services.audit.records import record
from agor.daemon.services.line import Entry
from agor.daemon.services.live import Turn
from agor.daemon.services.permissions.questions import Pending, Questions
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.rules.book import Verdict
from agor.daemon.services.rules.matching import Rule
from agor.daemon.services.rules.past import question_of
from agor.daemon.services.rules.rules import Rules, made
from agor.daemon.store import permissions, rules, tasks
from agor.daemon.store.rows import AuditRecord, PermissionRow, TaskRow
from agor.errors import AgorError
from agor.protocol.api import TaskStatus

log = structlog.get_logger("agor.permissions")

#: Seconds until a time-out that could not be stored is tried again.
_PAUSE = 1.0


class Answers:
    """Decides open questions."""

    def __init__(self, questions: Questions, rule_service: Rules, timeout_ms: int) -> None:
        self._questions = questions
        self._rules = rule_service
        self._timeout_ms = timeout_ms
        self._work: set[asyncio.Task[None]] = set()
        questions.time_is_over = lambda pending: self._begin(self._time_out(pending))
        rule_service.on_made = self._judge_again

    async def decide(
        self,
        pending: Pending,
        answer: dict[str, Any],
        who: Principal | None = None,
        receipt: Receipt | None = None,
        rule: Rule | None = None,
        still: Callable[[], bool] = lambda: True,
    ) -> PermissionRow | None:
        """Store an answer, with the rule that goes with it.

        None if there is an answer already, or if this one is not `still` true when its turn comes.
        """
        async with Turn(pending.live) as live:
            if not self._questions.is_open(pending) or not still():
                return None
            row = msgspec.structs.replace(pending.row, decided_at=pending.age.now(), **answer)
            entry = Entry([permissions.decide(row)])
            entry.records.append(decided(row, who))
            if rule is not None and who is not None:
                entry.also(rules.insert(rule.row))
                entry.records.append(made(who, rule.row))
            if receipt is not None:
                entry.also(receipt.statement(200, views.permission(row)))
            entry.tell("permission", row.task_id, views.permission(row))
            current = live.current
            waiting = current is not None and current.status == "awaiting_permission"
            if current is not None and waiting and len(self._questions.of_task(row.task_id)) == 1:
                current = move(current, "running", entry)
            await live.commit(entry, current=current, queue=live.queue)
            self._questions.settle(pending, row)
            if rule is not None:
                # Before anybody can ask again.
                self._rules.apply(rule)
        log.info("permission_decided", permission=row.permission_id, status=row.status)
        return row

    # ── without a person ─────────────────────────────────────────────────────────────────────

    def judge_pending(self, pending: Pending) -> None:
        """Have a question decided by a rule, if there is one by now."""
        self._begin(self._judge(pending))

    def _judge_again(self, user_id: str) -> None:
        for pending in self._questions.of_user(user_id):
            self.judge_pending(pending)

    async def _judge(self, pending: Pending) -> None:
        verdict = self._verdict(pending)
        if verdict is None:
            return
        try:
            # The rule may be revoked while we wait for our turn.
            await self.decide(
                pending, by_itself(verdict), still=lambda: self._verdict(pending) == verdict
            )
        except AgorError as error:
            # It stays open, for whoever answers it first.
            log.warning("rule_not_applied", rule=verdict.by, why=error.message)

    def _verdict(self, pending: Pending) -> Verdict | None:
        row, current = pending.live.row, pending.live.current
        if current is None or current.task_id != pending.row.task_id:
            return None
        question = question_of(pending.row, row.user_id, row.workspace, current.permission_mode)
        return self._rules.judge(question)

    async def _time_out(self, pending: Pending) -> None:
        reason = f"nobody answered within {self._timeout_ms / 1000:g} s"
        try:
            await self.decide(pending, {"status": "timed_out", "reason": reason})
        except AgorError as error:
            # The store cannot write now. The question stays, and so does its time-out.
            log.warning("time_out_not_stored", why=error.message)
            self._questions.wait(pending, _PAUSE)

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def by_itself(verdict: Verdict) -> dict[str, Any]:
    """Make the answer of a verdict that needed nobody."""
    return {
        "status": "approved" if verdict.approved else "denied",
        "decided_rule": verdict.by,
        "reason": verdict.reason,
    }


def decided(row: PermissionRow, who: Principal | None) -> AuditRecord:
    """Write down how a question was decided, and by whom or what. Its input may be secret."""
    return record(
        "permission.decided", who, session_id=row.session_id, subject=row.permission_id,
        tool=row.tool_name, status=row.status, rule=row.decided_rule, task_id=row.task_id,
    )  # fmt: skip


def move(task: TaskRow, status: TaskStatus, entry: Entry) -> TaskRow:
    """Have a task wait for an answer, or go on."""
    moved: TaskRow = msgspec.structs.replace(task, status=status)
    entry.also(tasks.update(moved))
    entry.tell("task", task.task_id, views.task_state(moved))
    return moved
