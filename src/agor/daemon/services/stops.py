"""Stopping a task that runs: gently first, then its executor with all that it started.

A stop is over when nothing of it is left, and that was counted. Whatever an agent left behind, also
what hid from its own process group, ends with the executor; the next prompt gets another one.
"""

from __future__ import annotations

import asyncio

import structlog

from agor.daemon.pool.ending import UNKNOWN
from agor.daemon.services.executors import Executors
from agor.daemon.services.finish import Finisher, result_of
from agor.daemon.services.runs import Run
from agor.daemon.services.tokens import Tokens
from agor.errors import AgorError
from agor.protocol.events import Problem
from agor.protocol.validation import quoted

log = structlog.get_logger("agor.tasks")


class Stopper:
    """Carries out stops that were decided and stored."""

    def __init__(
        self, executors: Executors, tokens: Tokens, finisher: Finisher, stop_timeout: float
    ) -> None:
        self._executors = executors
        self._tokens = tokens
        self._finisher = finisher
        self._stop_timeout = stop_timeout
        self._stops: dict[str, asyncio.Task[None]] = {}

    def begin(self, run: Run, reason: str | None) -> None:
        """Begin to stop a task whose status is `stopping`, unless that is under way."""
        if run.task_id not in self._stops:
            task = asyncio.create_task(self._stop(run, reason or "stopped"))
            self._stops[run.task_id] = task
            task.add_done_callback(lambda done: self._ended(run.task_id, done))

    async def _stop(self, run: Run, reason: str) -> None:
        await self._ask(run, reason)
        survivors = await self._end_executor(run, reason)
        result = run.result or result_of(Problem("cancelled", reason), stopped=True)
        await self._finisher.finish(run, result, survivors=survivors, stopped=True)

    async def _end_executor(self, run: Run, reason: str) -> int | None:
        """End the executor with all that it started; tells what is left of it."""
        try:
            ending = await self._executors.stop(run.live.session_id, reason) or run.ending
        except Exception:
            log.exception("executor_not_ended", task=run.task_id)
            return UNKNOWN
        return None if ending is None else ending.survivors

    async def _ask(self, run: Run, reason: str) -> None:
        """Let the agent stop in its own way, if it can be told."""
        grant = self._tokens.of_task(run.task_id)
        environment = run.environment
        if environment is None or grant is None or grant.token is None:
            return
        try:
            await environment.stop_task(grant.token, run.task_id, reason, self._stop_timeout)
        except AgorError as error:
            log.info("not_stopped_gently", task=run.task_id, why=quoted(error.message))

    def _ended(self, task_id: str, task: asyncio.Task[None]) -> None:
        self._stops.pop(task_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("stop_failed", exc_info=error)

    async def close(self) -> None:
        """Leave what is under way to the daemon after us."""
        stops = list(self._stops.values())
        for task in stops:
            task.cancel()
        await asyncio.gather(*stops, return_exceptions=True)
