"""Runs tasks: one prompt each, from its start to its result.

A task belongs to the executor, not to the request that started it: the daemon may disconnect, ask
again or stop it, and it ends exactly once, with a `task_result` as its last event.
"""

from __future__ import annotations

import asyncio
import hmac
import time
import uuid
from collections import OrderedDict
from collections.abc import Awaitable
from typing import Any, Literal

import msgspec
import structlog

from agor.agents.base import Agent
from agor.agents.registry import find_agent
from agor.agents.turn import Turn
from agor.errors import AgorError, Overloaded, TokenRefused, UnknownTask
from agor.executor.conversations import Conversations
from agor.executor.delivery import Delivery
from agor.executor.discretion import Discretion
from agor.executor.folders import need_folder
from agor.protocol.events import Event, Log, Problem, Status, TaskResult
from agor.protocol.methods import (
    GET_API_KEY,
    REQUEST_PERMISSION,
    ExecutePromptParams,
    GetApiKeyParams,
    GetApiKeyResult,
    RequestPermissionParams,
    RequestPermissionResult,
    StopTaskParams,
    StopTaskResult,
    TaskInfo,
)
from agor.protocol.validation import quoted

log = structlog.get_logger("agor.executor")

TaskState = Literal["running", "stopping", "completed", "failed", "cancelled"]

#: What a task may become. Nothing leaves the three ends.
TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    "running": frozenset(("stopping", "completed", "failed", "cancelled")),
    "stopping": frozenset(("completed", "failed", "cancelled")),
    "completed": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}

#: Events whose words may be a program's or a provider's.
_OTHERS_WORDS = (Log, Problem)
MAX_RUNNING = 64
#: Ended tasks that are remembered, so that a repeated execute_prompt does not run them again.
_REMEMBERED = 256
#: Seconds an agent has to end its processes once it is told to stop.
_STOP_GRACE = 10.0


class TaskRun:
    """One task."""

    def __init__(
        self, params: ExecutePromptParams, delivery: Delivery, conversations: Conversations
    ) -> None:
        self.params = params
        self.state: TaskState = "running"
        self.log = delivery.open(params.task_id, params.session_token)
        self._delivery = delivery
        self._conversations = conversations
        self._discretion = Discretion()
        self._turn = Turn(
            params, self._tell, self._ask, self._fetch_key, max_delta=delivery.max_delta
        )
        self._stop = asyncio.Event()
        self._stop_reason: str | None = None
        self.result: asyncio.Task[TaskResult] = asyncio.create_task(self._run())

    def move(self, state: TaskState) -> None:
        """Change the state, if the table allows it."""
        if state not in TRANSITIONS[self.state]:
            raise ValueError(f"a task cannot go from {self.state} to {state}")
        self.state = state

    def info(self) -> TaskInfo:
        """Tell how far it is."""
        return TaskInfo(
            task_id=self.params.task_id,
            state=self.state,
            last_sequence=self.log.last_sequence,
            acked_sequence=self.log.acked_sequence,
        )

    def stop(self, reason: str | None) -> None:
        """Tell the agent to stop; the result says when it has."""
        if self.state == "running":
            self.move("stopping")
            self._stop_reason = reason
            self._stop.set()

    # ── the run ──────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> TaskResult:
        began = time.monotonic()
        self._tell_now(Status("started"))
        agent = await self._conversations.take(self.params)
        work = asyncio.create_task(agent.run(self._turn))
        stop = asyncio.create_task(self._stop.wait())
        timeout = None if self.params.timeout_ms is None else self.params.timeout_ms / 1000
        await asyncio.wait((work, stop), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        timed_out = not work.done() and not self._stop.is_set()
        if not work.done():
            self._tell_now(Status("stopping", self._stop_reason))
            work.cancel()
            await asyncio.wait((work,), timeout=_STOP_GRACE)
        result = self._conclude(work, timed_out=timed_out)
        await self._leave(agent, result)
        self.move(result.status)
        self._tell_now(result)
        self._delivery.outbox.close(self.log)
        # What is remembered of it must not be as large as its prompt.
        self.params = msgspec.structs.replace(self.params, prompt="")
        del self._turn
        log.info(
            "task_ended",
            task_id=self.params.task_id,
            status=result.status,
            events=self.log.last_sequence,
            seconds=round(time.monotonic() - began, 3),
        )
        return result

    async def _leave(self, agent: Agent, result: TaskResult) -> None:
        """Let the agent wait for the next prompt, or end it before that can come."""
        if result.status == "completed" or (result.status == "failed" and self._turn.over):
            await self._conversations.keep(self.params, agent, self._turn.agent_session_id)
        else:
            await self._conversations.end(agent)

    def _conclude(self, work: asyncio.Task[None], *, timed_out: bool) -> TaskResult:
        if not work.done():
            return self._result(
                "failed",
                Problem(
                    "agent_stuck",
                    f"the agent did not stop within {_STOP_GRACE:g} s",
                    "Stop the executor to end its processes.",
                ),
            )
        if timed_out:
            limit = self.params.timeout_ms
            return self._result("failed", Problem("timed_out", f"not done within {limit} ms"))
        if work.cancelled():
            return self._result("cancelled", Problem("cancelled", self._stop_reason or "stopped"))
        error = work.exception()
        if error is None:
            return self._result("completed", None)
        if isinstance(error, AgorError):
            return self._result("failed", Problem(error.code, error.message, error.hint))
        log.error("agent_bug", task_id=self.params.task_id, exc_info=error)
        return self._result(
            "failed",
            Problem(
                "internal_error",
                f"the agent {self.params.agentic_tool} has a bug",
                "The executor's log has the details.",
            ),
        )

    def _result(
        self, status: Literal["completed", "failed", "cancelled"], problem: Problem | None
    ) -> TaskResult:
        return TaskResult(
            status=status,
            message_count=self._turn.blocks,
            token_usage=self._turn.usage,
            agent_session_id=self._turn.agent_session_id,
            cost=self._turn.cost,
            error=problem and self._discretion.problem(problem),
        )

    # ── what the agent may do ────────────────────────────────────────────────────────────────

    def _tell(self, event: Event) -> Awaitable[None]:
        if type(event) in _OTHERS_WORDS:
            event = self._discretion.event(event)
        return self._delivery.report(self.log, event)

    def _tell_now(self, event: Event) -> None:
        self._delivery.report_now(self.log, event)

    async def _ask(
        self, tool_name: str, tool_input: dict[str, Any], tool_use_id: str | None
    ) -> RequestPermissionResult:
        params = RequestPermissionParams(
            session_token=self.params.session_token,
            task_id=self.params.task_id,
            request_id=str(uuid.uuid4()),
            tool_name=tool_name,
            tool_input=tool_input,
            tool_use_id=tool_use_id,
        )
        return await self._delivery.ask(REQUEST_PERMISSION, params)

    async def _fetch_key(self, name: str, *or_else: str) -> GetApiKeyResult:
        params = GetApiKeyParams(
            session_token=self.params.session_token, credential_key=name, or_else=list(or_else)
        )
        given = await self._delivery.ask(GET_API_KEY, params)
        self._discretion.note(given.api_key)
        return given


class Prompts:
    """The tasks of this executor."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._conversations = Conversations()
        self._runs: OrderedDict[str, TaskRun] = OrderedDict()

    @property
    def running(self) -> list[TaskRun]:
        """Those that have not ended."""
        return [run for run in self._runs.values() if not run.result.done()]

    def unsettled(self) -> list[TaskInfo]:
        """Those the daemon does not have whole: running, or with events unacknowledged."""
        return [run.info() for run in self._runs.values() if not run.log.settled]

    async def execute(self, params: ExecutePromptParams) -> TaskResult:
        """Run a task to its end, or wait for the end of the one with this id.

        The result follows the task's last event on the wire.
        """
        run = self._runs.get(params.task_id)
        if run is None:
            run = self._start(params)
        else:
            _check_token(run, params.session_token)
        result = await asyncio.shield(run.result)
        await self._delivery.wait_sent(run.log)
        return result

    async def stop(self, params: StopTaskParams) -> StopTaskResult:
        """End a task, and answer when it has ended."""
        run = self._runs.get(params.task_id)
        if run is None:
            raise UnknownTask(f"there is no task {quoted(params.task_id)} here")
        _check_token(run, params.session_token)
        if run.result.done():
            return StopTaskResult(stopped=False, message=f"the task is {run.state} already")
        run.stop(params.reason)
        result = await asyncio.shield(run.result)
        if result.status == "completed":
            return StopTaskResult(stopped=False, message="the task was completed meanwhile")
        return StopTaskResult(stopped=True)

    async def close(self) -> None:
        """End the agents that wait; every task has ended."""
        await self._conversations.close()

    def _start(self, params: ExecutePromptParams) -> TaskRun:
        find_agent(params.agentic_tool)
        need_folder(params.cwd)
        if len(self.running) >= MAX_RUNNING:
            raise Overloaded(f"{MAX_RUNNING} tasks are running already")
        self._forget_old()
        run = self._runs[params.task_id] = TaskRun(params, self._delivery, self._conversations)
        log.info("task_started", task_id=params.task_id, agent=params.agentic_tool)
        return run

    def _forget_old(self) -> None:
        ended = [task_id for task_id, run in self._runs.items() if run.log.settled]
        for task_id in ended[: max(0, len(ended) - _REMEMBERED)]:
            del self._runs[task_id]


def _check_token(run: TaskRun, token: str) -> None:
    if not hmac.compare_digest(run.params.session_token.encode(), token.encode()):
        raise TokenRefused("this token does not belong to the task")
