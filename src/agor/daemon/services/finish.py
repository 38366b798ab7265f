"""The end of a task: one place, whoever ended it, and the first one counts."""

from __future__ import annotations

import msgspec
import structlog

from agor.daemon.metrics import Metrics
from agor.daemon.pool.ending import Ending
from agor.daemon.services import states, views
from agor.daemon.services.compaction import Compactor
from agor.daemon.services.line import Entry
from agor.daemon.services.live import LiveSession, Turn
from agor.daemon.services.permissions.questions import Questions
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.runs import Run
from agor.daemon.services.stamps import not_before
from agor.daemon.services.tokens import Tokens
from agor.daemon.store import messages, tasks
from agor.daemon.store.rows import TaskRow
from agor.errors import StoreDamaged
from agor.protocol.api import TaskStatus
from agor.protocol.events import Problem, TaskResult, TokenUsage

log = structlog.get_logger("agor.tasks")

#: Characters of a dead executor's last words that are shown.
_LAST_WORDS = 2000


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

    def __init__(
        self, tokens: Tokens, questions: Questions, metrics: Metrics, compactor: Compactor
    ) -> None:
        self._metrics = metrics
        self._compactor = compactor
        self._tokens = tokens
        self._questions = questions

    async def finish(
        self, run: Run, result: TaskResult, *, survivors: int | None = None, stopped: bool = False
    ) -> None:
        """End a task that is being run, unless it has ended already.

        One that is being stopped is ended by whoever stops it, and by nobody else: only then
        nothing is left of it, and the next one may begin.

        If the database is damaged where the end belongs, the task ends in memory only: its session
        takes no more prompts, and everything else goes on.
        """
        live = run.live
        async with Turn(live, patience=None):
            current = live.current
            if current is None or current.task_id != run.task_id:
                return
            if current.status == "stopping" and not stopped:
                return
            at = not_before(current.created_at) if run.age is None else run.age.now()
            row = _ended(current, _status(current, result), result, survivors, at)
            try:
                await self._commit(live, run, row, result.agent_session_id or run.agent_session_id)
            except StoreDamaged as error:
                # It can never be stored. Nobody waits for it, so that the executor is given back.
                log.error(
                    "task_end_not_stored",
                    task=row.task_id,
                    session=live.session_id,
                    why=error.message,
                )
                run.end()
                return
        self._metrics.tasks_ended.labels(row.status).inc()
        log.info("task_ended", task=row.task_id, session=live.session_id, status=row.status)
        cut = (block.sequence for block in run.blocks.values())
        self._compactor.add(live.row.number, (*run.long_blocks, *cut))
        run.end()

    async def _commit(
        self, live: LiveSession, run: Run, row: TaskRow, agent_session_id: str | None
    ) -> None:
        entry = Entry([tasks.update(row)], patient=True)
        # Behind all that is still on its way into the feed.
        entry.make_statements = lambda first: [messages.cut(live.row.number, row.task_id, first)]
        entry.also(*self._tokens.revoke(run.task_id))
        withdrawn = self._questions.withdraw(run.task_id, entry)
        entry.end_task(row.task_id, views.task_state(row))
        changes = {}
        if agent_session_id not in (None, live.row.agent_session_id):
            changes["agent_session_id"] = agent_session_id
        await live.commit(entry, current=None, queue=live.queue, last=row.status, **changes)
        self._questions.withdrawn(withdrawn)
        self._questions.forget(run.task_id)


def _status(task: TaskRow, result: TaskResult) -> TaskStatus:
    if task.status == "dispatching":
        # No executor has heard of it: there is only one way for it to end here.
        return "failed"
    code = result.error.code if result.error else None
    return states.end_of(result.status, code, stopping=task.status == "stopping")


def describe_loss(ending: Ending) -> Problem:
    """Say how an executor ended, to whoever wanted something of it."""
    words = ending.stderr_tail.strip()[-_LAST_WORDS:]
    hint = f"Its last words:\n{words}" if words else None
    return Problem("executor_failed", f"the executor ended: {ending.in_words}", hint)


async def drop_queued(
    live: LiveSession, task_id: str, why: Problem, receipt: Receipt | None
) -> TaskRow | None:
    """End a task that still waits in the queue. `live.lock` is held by the caller."""
    row = next((task for task in live.queue if task.task_id == task_id), None)
    if row is None:
        return None
    at = not_before(row.created_at)
    ended = _ended(row, "stopped", result_of(why, stopped=True), None, at)
    entry = Entry([tasks.update(ended)])
    if receipt is not None:
        entry.also(receipt.statement(202, views.task(ended)))
    entry.end_task(task_id, views.task_state(ended))
    queue = [task for task in live.queue if task.task_id != task_id]
    await live.commit(entry, current=live.current, queue=queue)
    return ended


def _ended(
    row: TaskRow, status: TaskStatus, result: TaskResult, survivors: int | None, at: int
) -> TaskRow:
    states.check_move(row.status, status)
    return msgspec.structs.replace(
        row,
        status=status,
        ended_at=at,
        result=msgspec.json.encode(result),
        survivors=survivors,
    )
