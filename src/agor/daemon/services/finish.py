"""The end of a task: one place, whoever ended it, and the first one counts."""

from __future__ import annotations

import msgspec
import structlog

from agor.daemon.metrics import Metrics
from agor.daemon.services import states, views
from agor.daemon.services.line import Entry
from agor.daemon.services.live import LiveSession, Turn
from agor.daemon.services.permissions import Permissions
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.runs import Run
from agor.daemon.services.stamps import now
from agor.daemon.services.tokens import Tokens
from agor.daemon.store import messages, tasks
from agor.daemon.store.rows import TaskRow
from agor.protocol.api import TaskStatus
from agor.protocol.events import Problem, TaskResult, TokenUsage

log = structlog.get_logger("agor.tasks")


def result_of(problem: Problem, *, stopped: bool = False) -> TaskResult:
    """Make the result of a task that could not report one itself."""
    return TaskResult(
        status="cancelled" if stopped else "failed",
        message_count=0,
        token_usage=TokenUsage(),
        error=problem,
    )


class Finisher:
    """Ends tasks: state, token and open questions in one commit."""

    def __init__(self, tokens: Tokens, permissions: Permissions, metrics: Metrics) -> None:
        self._metrics = metrics
        self._tokens = tokens
        self._permissions = permissions

    async def finish(self, run: Run, result: TaskResult, *, survivors: int | None = None) -> None:
        """End a task that is being run, unless it has ended already."""
        live = run.live
        async with Turn(live, patience=None):
            current = live.current
            if current is None or current.task_id != run.task_id:
                return
            stopping = current.status == "stopping"
            code = result.error.code if result.error else None
            status = states.end_of(result.status, code, stopping=stopping)
            row = _ended(current, status, result, survivors)
            entry = Entry([tasks.update(row)], patient=True)
            # Behind all that is still on its way into the feed.
            entry.make_statements = lambda first: [
                messages.cut(live.row.number, row.task_id, first)
            ]
            entry.also(*self._tokens.revoke(row.task_id))
            entry.tell("task", row.task_id, views.task_state(row))
            withdrawn = self._permissions.withdraw(row.task_id, entry)
            known = result.agent_session_id or run.agent_session_id
            changes = (
                {} if known in (None, live.row.agent_session_id) else {"agent_session_id": known}
            )
            await live.commit(entry, current=None, queue=live.queue, last=status, **changes)
            self._permissions.withdrawn(withdrawn)
        self._metrics.tasks_ended.labels(status).inc()
        log.info("task_ended", task=row.task_id, session=live.session_id, status=status)
        if not run.ended.done():
            run.ended.set_result(None)


async def drop_queued(
    live: LiveSession, task_id: str, why: Problem, receipt: Receipt | None
) -> TaskRow | None:
    """End a task that still waits in the queue. `live.lock` is held by the caller."""
    row = next((task for task in live.queue if task.task_id == task_id), None)
    if row is None:
        return None
    ended = _ended(row, "stopped", result_of(why, stopped=True), None)
    entry = Entry([tasks.update(ended)])
    if receipt is not None:
        entry.also(receipt.statement(202, views.task(ended)))
    entry.tell("task", task_id, views.task_state(ended))
    queue = [task for task in live.queue if task.task_id != task_id]
    tell_places(entry, live.queue, queue)
    await live.commit(entry, current=live.current, queue=queue)
    return ended


def tell_places(entry: Entry, before: list[TaskRow], after: list[TaskRow]) -> None:
    """Tell of tasks whose place in the queue has changed."""
    places = {task.task_id: place for place, task in enumerate(before, 1)}
    for place, task in enumerate(after, 1):
        if places.get(task.task_id) != place:
            entry.tell("task", task.task_id, views.task_state(task, place))


def _ended(row: TaskRow, status: TaskStatus, result: TaskResult, survivors: int | None) -> TaskRow:
    states.check_move(row.status, status)
    return msgspec.structs.replace(
        row,
        status=status,
        ended_at=now(),
        result=msgspec.json.encode(result),
        survivors=survivors,
    )
