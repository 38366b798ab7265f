"""Runs tasks: the next one of each session's queue, on the session's executor, to its end.

What makes a task run once: before an executor is asked for, the task is `dispatching`, and a daemon
that finds it so puts it back. Before the executor is told of it, it is `running` on that executor,
and a daemon that finds it so asks that executor, or reports that it is gone. The executor knows
tasks by their id, so being told twice is being told once. If the executor waits already, both steps
are one commit with the one that takes the task in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import msgspec
import structlog

from agor.daemon.pool.settings import Claim
from agor.daemon.services import access, tool_servers, views
from agor.daemon.services.binding import Bound, BoundAtOnce, bind
from agor.daemon.services.executors import Executors
from agor.daemon.services.finish import Finisher, result_of
from agor.daemon.services.line import Entry
from agor.daemon.services.live import LiveSession, Turn
from agor.daemon.services.people.people import People, principal
from agor.daemon.services.runs import Run, Runs
from agor.daemon.services.tokens import Tokens
from agor.daemon.services.workspaces.workspaces import Workspaces
from agor.daemon.store import tasks
from agor.daemon.store.rows import TaskRow
from agor.errors import (
    AgorError,
    Disconnected,
    Forbidden,
    PoolClosed,
    PoolExhausted,
    ResourcesExhausted,
    StoreUnavailable,
)
from agor.execution import ExecutionEnvironment
from agor.protocol.events import Problem
from agor.protocol.methods import ExecutePromptParams

T = TypeVar("T")

log = structlog.get_logger("agor.tasks")

#: Seconds until a task that found no room in the pool, or a store that cannot write, tries again.
_PAUSE = 0.5
#: Seconds in which the end of an executor should be heard of.
_NEWS = 2.0
_BUG = Problem(
    "internal_error", "its executor could not be started", "The daemon's log has the details."
)


class Dispatcher:
    """One worker per session that has something to do."""

    def __init__(
        self,
        executors: Executors,
        people: People,
        workspaces: Workspaces,
        runs: Runs,
        token_service: Tokens,
        finisher: Finisher,
        task_timeout_ms: int | None,
    ) -> None:
        self._executors = executors
        self._people = people
        self._workspaces = workspaces
        self._runs = runs
        self._tokens = token_service
        self._finisher = finisher
        self._task_timeout_ms = task_timeout_ms
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._closed = False

    def kick(self, live: LiveSession) -> None:
        """Something has come into a session's queue."""
        if live.session_id not in self._workers and not self._closed:
            self._employ(live, None)

    def resume(self, live: LiveSession, run: Run, environment: ExecutionEnvironment | None) -> None:
        """Go on with a task that an earlier daemon began.

        With an environment, it is to be told of the task (again); without, it has it.
        """
        self._employ(live, partial(self._go_on, live, run, environment))

    def bind_at_once(self, live: LiveSession, task: TaskRow, entry: Entry) -> BoundAtOnce | None:
        """Have a new task begin with the commit of its entry, if its executor waits for one.

        None if it does not, or may not have the task: then it goes the longer way, which waits for
        the one and says why not in the other case. `live.lock` is held by the caller.
        """
        if live.session_id in self._workers or self._closed:
            return None
        try:
            environment = self._executors.acquire_idle(self.claim_of(live, task.user_id))
        except AgorError:
            return None
        if environment is None:
            return None
        row: TaskRow = msgspec.structs.replace(task, status="dispatching")
        entry.tell("task", row.task_id, views.task_state(row))
        run = Run(live, row.task_id)
        self._runs.add(run)
        begun = BoundAtOnce(bind(entry, run, row, environment, self._tokens), self._tokens)
        self._employ(live, partial(self._execute_at_once, live, begun, environment))
        return begun

    def _employ(self, live: LiveSession, first: Callable[[], Awaitable[None]] | None) -> None:
        worker = asyncio.create_task(self._work(live, first))
        self._workers[live.session_id] = worker
        worker.add_done_callback(lambda done: self._left(live, done))

    def _left(self, live: LiveSession, worker: asyncio.Task[None]) -> None:
        if self._workers.get(live.session_id) is worker:
            del self._workers[live.session_id]
        if not worker.cancelled() and (error := worker.exception()) is not None:
            log.error("worker_failed", session=live.session_id, exc_info=error)

    async def close(self) -> None:
        """Begin nothing more; what is under way stays as it is."""
        self._closed = True
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    # ── a session's worker ───────────────────────────────────────────────────────────────────

    async def _work(self, live: LiveSession, first: Callable[[], Awaitable[None]] | None) -> None:
        if first is not None:
            await first()
        while (run_next := await self._next(live)) is not None:
            try:
                await self._run(live, run_next)
            except PoolClosed:
                return

    async def _next(self, live: LiveSession) -> Run | None:
        async with Turn(live, patience=None):
            if not live.queue or live.current is not None or self._closed:
                # In the same breath: whoever comes now must find that nobody is here.
                self._workers.pop(live.session_id, None)
                return None
            task = live.queue[0]
            row: TaskRow = msgspec.structs.replace(task, status="dispatching")
            entry = Entry([tasks.update(row)], patient=True)
            entry.tell("task", row.task_id, views.task_state(row))
            run = Run(live, row.task_id)
            self._runs.add(run)
            await live.commit(entry, current=row, queue=live.queue[1:])
            return run

    async def _run(self, live: LiveSession, run: Run) -> None:
        try:
            environment = await self._acquire(live, run)
        except PoolClosed:
            raise
        except AgorError as error:
            problem = Problem(error.code, error.message, error.hint)
            await self._finisher.finish(run, result_of(problem))
            return
        except Exception:
            log.exception("not_acquired", session=live.session_id)
            await self._finisher.finish(run, result_of(_BUG))
            return
        if environment is None:
            return
        try:
            await self._begin(live, run, environment)
        finally:
            self._executors.release(live.session_id, environment)

    async def _acquire(self, live: LiveSession, run: Run) -> ExecutionEnvironment | None:
        """Get the session's executor; None if the task was stopped before it had begun."""
        prompter = None if live.current is None else live.current.user_id
        claim = self.claim_of(live, prompter)
        while True:
            run.acquiring = asyncio.create_task(self._ready(live, claim))
            try:
                return await run.acquiring
            except (PoolExhausted, ResourcesExhausted, StoreUnavailable) as error:
                # Whoever sends a prompt is told so; this one was taken, and will be run.
                if isinstance(error, ResourcesExhausted):
                    log.warning("task_delayed", task=run.task_id, why=error.message)
                await _first(asyncio.sleep(_PAUSE), run.ended)
            except asyncio.CancelledError:
                if not run.ended.done():
                    run.acquiring.cancel()
                    raise
            if run.ended.done():
                return None

    def claim_of(self, live: LiveSession, prompter: str | None) -> Claim:
        """Say as whom a session's executor runs; refuses to work for who may not have it any more.

        A prompt may have waited for long: a share, a role or an account can be gone by now.
        """
        user_id = live.row.user_id
        prompter = prompter or user_id
        self._people.check_enabled(user_id, prompter)
        who = principal(self._people.get(prompter))
        if not access.may(who, "session.prompt", access.tie_to(who, user_id, live.shares)):
            raise Forbidden(f"{who.name} may not prompt in this session any more")
        unix_username = self._people.unix_username(user_id)
        return Claim(session_id=live.session_id, user_id=user_id, unix_username=unix_username)

    async def _ready(self, live: LiveSession, claim: Claim) -> ExecutionEnvironment:
        """Get the executor, once it is sure that it can work in the session's folder."""
        if not self._executors.has(live.session_id):
            await self._workspaces.check_reachable(live.row)
        return await self._executors.acquire(claim)

    async def _go_on(
        self, live: LiveSession, run: Run, environment: ExecutionEnvironment | None
    ) -> None:
        try:
            if environment is not None:
                await self._begin(live, run, environment)
            await run.wait_ended()
        finally:
            self._executors.release(live.session_id)

    async def _begin(self, live: LiveSession, run: Run, environment: ExecutionEnvironment) -> None:
        bound = await self._bind(live, run, environment)
        if bound is not None:
            await self._execute(live, bound)

    async def _execute_at_once(
        self, live: LiveSession, begun: BoundAtOnce, environment: ExecutionEnvironment
    ) -> None:
        try:
            if await begun.durable():
                await self._execute(live, begun.bound)
        finally:
            self._executors.release(live.session_id, environment)

    async def _bind(
        self, live: LiveSession, run: Run, environment: ExecutionEnvironment
    ) -> Bound | None:
        """Make it durable that this executor has the task, before it is told."""
        async with Turn(live, patience=None):
            task = live.current
            if task is None or task.task_id != run.task_id:
                return None
            entry = Entry(patient=True)
            bound = bind(entry, run, task, environment, self._tokens)
            await live.commit(entry, current=bound.task, queue=live.queue)
        return bound

    async def _execute(self, live: LiveSession, bound: Bound) -> None:
        """Tell the executor, again after every cut, until the task has ended."""
        run, task, grant = bound
        environment = run.environment
        assert environment is not None
        assert grant.token is not None
        params = ExecutePromptParams(
            session_token=grant.token,
            session_id=live.session_id,
            task_id=task.task_id,
            agentic_tool=live.row.agentic_tool,
            prompt=task.prompt,
            cwd=live.row.workspace,
            tools=msgspec.json.decode(task.tools, type=list[str]),
            permission_mode=task.permission_mode,
            model=task.model,
            resume=live.row.agent_session_id,
            timeout_ms=task.timeout_ms or self._task_timeout_ms,
            mcp_servers=tool_servers.read(live.row),
        )
        while not run.ended.done():
            try:
                result = await _first(environment.execute_prompt(params), run.ended)
            except Disconnected:
                await self._wait_for(environment, run)
            except AgorError as error:
                problem = Problem(error.code, error.message, error.hint)
                await self._finisher.finish(run, result_of(problem))
            else:
                if result is not None and run.result is None:
                    # It should have come as an event before; we take it as it is.
                    await self._finisher.finish(run, result)
                await run.wait_ended()

    async def _wait_for(self, environment: ExecutionEnvironment, run: Run) -> None:
        """Wait until an executor is connected again; if it has ended, so has its task."""
        try:
            await _first(environment.wait_connected(), run.ended)
        except Disconnected as error:
            # How it ended is about to be told, unless that was before it had the task.
            await asyncio.wait((run.ended,), timeout=_NEWS)
            problem = Problem("executor_failed", error.message)
            await self._finisher.finish(run, result_of(problem))
            # If it was being stopped, whoever stops it ends it.
            await run.wait_ended()


async def _first(work: Coroutine[Any, Any, T], ended: asyncio.Future[None]) -> T | None:
    """Wait for some work, but not beyond the end of the task."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait((task, ended), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
