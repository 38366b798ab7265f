"""A task and the executor that gets it: what is made durable before the executor is told."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from agor.daemon.services import views
from agor.daemon.services.line import Entry
from agor.daemon.services.prompts import tell_prompt
from agor.daemon.services.runs import Run
from agor.daemon.services.stamps import not_before
from agor.daemon.services.tokens import Grant, Tokens
from agor.daemon.store import tasks, tokens
from agor.daemon.store.rows import TaskRow
from agor.execution import ExecutionEnvironment


class Bound(NamedTuple):
    """A task, as it is once its executor has it, and the token under which it works there."""

    run: Run
    task: TaskRow
    grant: Grant


def bind(
    entry: Entry, run: Run, task: TaskRow, environment: ExecutionEnvironment, token_service: Tokens
) -> Bound:
    """Add to an entry that this executor has the task, and by which token it is known from now."""
    begins = task.status == "dispatching"
    row: TaskRow = msgspec.structs.replace(
        task,
        status="running" if begins else task.status,
        executor_id=environment.executor_id,
        started_at=task.started_at or not_before(task.created_at),
    )
    run.measure_from(row.started_at)
    live = run.live
    grant = token_service.mint(
        live.session_id, row.task_id, live.row.user_id, environment.executor_id
    )
    entry.also(tasks.update(row), tokens.insert(grant.row))
    entry.also(*token_service.revoke(row.task_id))
    entry.tell("task", row.task_id, views.task_state(row))
    if begins:
        tell_prompt(entry, live.row.number, row)
    run.environment, run.executor_id = environment, environment.executor_id
    token_service.admit(grant)
    return Bound(run, row, grant)


class BoundAtOnce:
    """A task that is bound by the commit that takes it in: around that commit, in a `with`.

    If the commit fails there is no such task, and nothing of it stays.
    """

    def __init__(self, bound: Bound, token_service: Tokens) -> None:
        self.bound = bound
        self._tokens = token_service
        self._settled = asyncio.Event()
        self._durable = False

    @property
    def task(self) -> TaskRow:
        """The task, which is running."""
        return self.bound.task

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self._durable = kind is None
        if kind is not None:
            run = self.bound.run
            self._tokens.revoke(run.task_id)
            run.end()
        self._settled.set()

    async def durable(self) -> bool:
        """Wait until it is known whether the task is safe; only then may anybody be told of it."""
        await self._settled.wait()
        return self._durable
