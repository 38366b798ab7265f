"""After a start: every task that an earlier daemon left unfinished is gone on with or reported.

What is loaded depends on what is unfinished, not on how much ever was.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from agor.daemon.pool.take_back import TakenBack
from agor.daemon.services import states, views
from agor.daemon.services.dispatch import Dispatcher
from agor.daemon.services.executors import Executors
from agor.daemon.services.finish import Finisher, describe_loss, drop_queued, result_of
from agor.daemon.services.line import Entry
from agor.daemon.services.live import LiveSession, LiveSessions
from agor.daemon.services.permissions.permissions import Permissions
from agor.daemon.services.runs import Begun, Run, Runs
from agor.daemon.services.stops import Stopper
from agor.daemon.services.terminals.recovery import TerminalRecovery
from agor.daemon.services.tokens import Grant, Tokens
from agor.daemon.store import messages, permissions, tasks, tokens
from agor.daemon.store.base import Store
from agor.errors import AgorError, NotFound, StoreDamaged
from agor.protocol.events import Problem, TaskResult

log = structlog.get_logger("agor.recovery")

_GONE = Problem(
    "executor_failed",
    "the daemon was restarted, and meanwhile the task's executor was gone",
    "What it had reported until then is in the conversation.",
)
_EARLIER = Problem(
    "executor_failed",
    "the database was restored from a backup that was made while this task ran",
    "What it had reported by the time of the backup is in the conversation.",
)
_NOT_AGAIN = Problem(
    "cancelled",
    "the database was restored from a backup that was made while this prompt waited",
    "It may have been run since the backup was made, so it is not run again: send it once more.",
)


def _pass_over(session_id: str, error: StoreDamaged) -> None:
    """Leave a session as it is whose part of the database is damaged: the others are recovered."""
    log.error("session_not_recovered", session=session_id, why=error.message)


class Recovery:
    """Brings a daemon to where its predecessor was."""

    def __init__(
        self,
        store: Store,
        lives: LiveSessions,
        runs: Runs,
        token_service: Tokens,
        permission_service: Permissions,
        finisher: Finisher,
        dispatcher: Dispatcher,
        stopper: Stopper,
        executors: Executors,
        terminals: TerminalRecovery,
    ) -> None:
        self._store = store
        self._lives = lives
        self._runs = runs
        self._tokens = token_service
        self._permissions = permission_service
        self._finisher = finisher
        self._dispatcher = dispatcher
        self._stopper = stopper
        self._executors = executors
        self._terminals = terminals
        self._gone = _GONE

    async def recover(self, *, restored: bool = False) -> None:
        """Load what is unfinished, take executors back, and go on.

        After a restore from a backup, nothing that was unfinished then is run again.
        """
        self._gone = _EARLIER if restored else _GONE
        unfinished = await tasks.unfinished(self._store)
        session_ids = dict.fromkeys(task.session_id for task in unfinished)
        found = await asyncio.gather(*(self._find(each) for each in session_ids))
        loaded = await asyncio.gather(*(self._load(live) for live in found if live is not None))
        lives = [live for live in loaded if live is not None]
        if restored:
            for live in list(lives):
                try:
                    await self._drop_waiting(live)
                except StoreDamaged as error:
                    lives.remove(live)
                    _pass_over(live.session_id, error)
        # From here on executors report; what they need to be known by is loaded.
        taken = {one.pooled.executor_id: one for one in await self._executors.open()}
        found_running = list(taken.values())
        for live in lives:
            await self._go_on(live, taken)
        for one in taken.values():
            # Its tasks have ended for us; what it still sends is acknowledged.
            if one.tasks:
                self._executors.release(one.pooled.claim.seat, one.pooled.environment)
        await self._terminals.recover(found_running)
        if unfinished:
            log.info("recovered", sessions=len(lives), tasks=len(unfinished))

    async def _find(self, session_id: str) -> LiveSession | None:
        try:
            return await self._lives.get(session_id)
        except NotFound:
            # Tasks without a session: somebody changed the database. No reason not to start.
            log.error("session_missing", session=session_id)
            return None
        except StoreDamaged as error:
            _pass_over(session_id, error)
            return None

    async def _load(self, live: LiveSession) -> LiveSession | None:
        try:
            await self._load_task(live)
        except StoreDamaged as error:
            _pass_over(live.session_id, error)
            run = None if live.current is None else self._runs.get(live.current.task_id)
            if run is not None:
                run.end()
            return None
        return live

    async def _load_task(self, live: LiveSession) -> None:
        await self._put_back(live)
        current = live.current
        if current is None:
            return
        run = Run(live, current.task_id, current.received)
        run.executor_id = current.executor_id
        run.measure_from(current.started_at)
        for block in await messages.open_blocks(self._store, live.row.number, run.task_id):
            run.blocks[block.block_id] = Begun(block.sequence)
        if current.result is not None:
            run.result = msgspec.json.decode(current.result, type=TaskResult)
        self._runs.add(run)
        for row in await tokens.of_task(self._store, run.task_id):
            self._tokens.admit(Grant(row=row))
        for asked in await permissions.pending_of_task(self._store, run.task_id):
            self._permissions.restore(asked, live)

    async def _drop_waiting(self, live: LiveSession) -> None:
        for task in list(live.queue):
            async with live.lock:
                await drop_queued(live, task.task_id, _NOT_AGAIN, None)

    async def _put_back(self, live: LiveSession) -> None:
        """Tasks that no executor had heard of wait again."""
        if not any(task.status == "dispatching" for task in live.queue):
            return
        entry, queue = Entry(patient=True), []
        for place, task in enumerate(live.queue, 1):
            row = task
            if task.status == "dispatching":
                states.check_move(task.status, "queued")
                row = msgspec.structs.replace(task, status="queued")
                entry.also(tasks.update(row))
                entry.tell("task", row.task_id, views.task_state(row, place))
            queue.append(row)
        async with live.lock:
            await live.commit(entry, current=live.current, queue=queue)

    async def _go_on(self, live: LiveSession, taken: dict[str, TakenBack]) -> None:
        current = live.current
        run = None if current is None else self._runs.get(current.task_id)
        if current is None or run is None:
            # It had none, or it has ended just now, with its executor.
            self._dispatcher.kick(live)
            return
        one = taken.pop(current.executor_id or "", None)
        if one is not None:
            run.environment = one.pooled.environment
        if current.status == "stopping":
            self._dispatcher.resume(live, run, None)
            self._stopper.begin(run, "stopped")
        elif run.result is not None:
            self._dispatcher.resume(live, run, None)
            await self._finisher.finish(run, run.result)
        elif one is None:
            self._dispatcher.resume(live, run, None)
            lost = self._gone if run.ending is None else describe_loss(run.ending)
            await self._finisher.finish(run, result_of(lost))
        elif any(info.task_id == run.task_id for info in one.tasks):
            self._dispatcher.resume(live, run, None)
        else:
            if one.tasks:
                # It is leased for others of its tasks, which have ended for us.
                self._executors.release(live.session_id, one.pooled.environment)
            await self._tell_again(live, run)

    async def _tell_again(self, live: LiveSession, run: Run) -> None:
        """The executor is there and has never heard of the task: the daemon died in between."""
        prompter = None if live.current is None else live.current.user_id
        try:
            environment = await self._executors.acquire(self._dispatcher.claim_of(live, prompter))
        except AgorError as error:
            self._dispatcher.resume(live, run, None)
            problem = Problem(error.code, error.message, error.hint)
            await self._finisher.finish(run, result_of(problem))
            return
        self._dispatcher.resume(live, run, environment)
