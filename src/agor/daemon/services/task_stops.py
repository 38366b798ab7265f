"""Stopping tasks: what people, and the daemon in their stead, can ask for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec

from agor.daemon.services import states, views
from agor.daemon.services.executors import Executors, seat_of
from agor.daemon.services.finish import drop_queued, result_of
from agor.daemon.services.line import Entry
from agor.daemon.services.live import LiveSession, LiveSessions, Turn
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.runs import Run, Runs
from agor.daemon.services.stamps import not_before
from agor.daemon.services.stops import Stopper
from agor.daemon.services.tasks import find_task
from agor.daemon.store import tasks
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import TaskRow
from agor.errors import Conflict, NotFound
from agor.protocol.api import Task, TaskStop
from agor.protocol.events import Problem


class TaskStops:
    """Ends tasks wherever they are in their life."""

    def __init__(
        self,
        store: Store,
        lives: LiveSessions,
        runs: Runs,
        executors: Executors,
        stopper: Stopper,
    ) -> None:
        self._store = store
        self._lives = lives
        self._runs = runs
        self._executors = executors
        self._stopper = stopper

    async def stop(
        self, who: Principal, task_id: str, why: TaskStop, receipt: Receipt | None = None
    ) -> Task:
        """Stop a task, wherever it is in its life. Who names an ended one is told so."""
        session, _ = await find_task(self._store, self._lives, who, task_id, "session.stop")
        return await self._stop(session, task_id, why.reason, receipt)

    async def stop_all_of(self, user_id: str, reason: str) -> None:
        """Stop what somebody has under way: in their sessions, and by their prompts in others'."""
        await self.stop_those(
            lambda live, task: user_id in (live.row.user_id, task.user_id), reason
        )
        for each in self._executors.describe():
            if each.user_id == user_id and not self._runs.on(each.executor_id):
                # One with a task ends with it.
                await self._executors.stop(seat_of(each), reason)

    async def stop_those(
        self, are_meant: Callable[[LiveSession, TaskRow], bool], reason: str
    ) -> None:
        """Stop tasks of any session that have not ended."""
        for live in self._lives.held():
            for task in (*live.queue, live.current):
                if task is not None and are_meant(live, task):
                    # It may have ended by itself meanwhile.
                    with contextlib.suppress(Conflict, NotFound):
                        await self._stop(live, task.task_id, reason, None)

    async def _stop(
        self, session: LiveSession, task_id: str, reason: str | None, receipt: Receipt | None
    ) -> Task:
        async with Turn(session) as live:
            problem = Problem("cancelled", reason or "stopped before it had begun")
            dropped = await drop_queued(live, task_id, problem, receipt)
            if dropped is not None:
                return views.task(dropped)
            current = live.current
            if current is None or current.task_id != task_id:
                row = await tasks.get(self._store, task_id)
                raise Conflict(
                    f"this task is {row.status if row else 'gone'} already",
                    hint="There is nothing left to stop.",
                )
            if current.status == "dispatching":
                return await self._call_off(live, current, problem, receipt)
            if current.status != "stopping":
                current = await self._begin_stop(live, current, reason, receipt)
            else:
                self._stopper.begin(self._run_of(current), reason)
                if receipt is not None:
                    await self._store.commit(Write([receipt.statement(202, views.task(current))]))
            return views.task(current)

    async def _begin_stop(
        self, live: LiveSession, current: TaskRow, reason: str | None, receipt: Receipt | None
    ) -> TaskRow:
        states.check_move(current.status, "stopping")
        row: TaskRow = msgspec.structs.replace(current, status="stopping")
        entry = Entry([tasks.update(row)])
        if receipt is not None:
            entry.also(receipt.statement(202, views.task(row)))
        entry.tell("task", row.task_id, views.task_state(row))
        await live.commit(entry, current=row, queue=live.queue)
        self._stopper.begin(self._run_of(row), reason)
        return row

    def _run_of(self, task: TaskRow) -> Run:
        run = self._runs.get(task.task_id)
        assert run is not None, "a task that has not ended has a run"
        return run

    async def _call_off(
        self, live: LiveSession, current: TaskRow, why: Problem, receipt: Receipt | None
    ) -> Task:
        """Stop a task that no executor has heard of."""
        row: TaskRow = msgspec.structs.replace(
            current,
            status="stopped",
            ended_at=not_before(current.created_at),
            result=msgspec.json.encode(result_of(why, stopped=True)),
        )
        entry = Entry([tasks.update(row)])
        if receipt is not None:
            entry.also(receipt.statement(202, views.task(row)))
        entry.end_task(row.task_id, views.task_state(row))
        await live.commit(entry, current=None, queue=live.queue, last="stopped")
        run = self._runs.get(row.task_id)
        if run is not None and not run.ended.done():
            run.end()
            if run.acquiring is not None:
                run.acquiring.cancel()
        return views.task(row)
