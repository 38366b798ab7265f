"""The pool process of a chaos run: sessions that work, one task after the other, until told to end.

Usage: python -m tests.chaos.pool_worker FOLDER SESSIONS
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections import defaultdict
from pathlib import Path

import uvloop

from agor import logs
from agor.daemon.pool import spares
from agor.daemon.pool.ending import Ending
from agor.daemon.pool.pool import Pool
from agor.daemon.pool.records import FileRecords
from agor.daemon.pool.settings import Claim, PoolSettings
from agor.errors import AgorError, HandlerFailed, InvalidParams
from agor.execution import ExecutionEnvironment
from agor.protocol.methods import (
    ExecutePromptParams,
    GetApiKeyParams,
    GetApiKeyResult,
    ReportMessageParams,
    RequestPermissionParams,
    RequestPermissionResult,
)
from agor.protocol.terminals import ReportTerminalParams
from tests.chaos.ledger import Ledger

#: Seconds in which every claim must have ended, one way or the other.
PATIENCE = 60.0
#: Words of a task, each told with a little pause.
WORDS = 30


def script(task: str) -> str:
    """What a task does: words, a process that runs away, more words."""
    words: list[object] = []
    for number in range(WORDS):
        words += [{"text": f"<{task}:{number}>"}, {"delay_ms": 5}]
    away = {"run": ["sh", "-c", "setsid sleep 3000 & (sleep 3001 &) ; echo away"]}
    return json.dumps([away, *words])


class Worker:
    """The host of the pool, and those who work with it."""

    def __init__(self, folder: Path, sessions: int) -> None:
        self.ledger = Ledger(folder / "ledger.db")
        self.sessions = sessions
        self.stopping = asyncio.Event()
        self._ended: dict[str, Ending] = {}
        self._finished: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        # There is no quiet here, and spares are to be killed as well.
        spares._QUIET = spares._PAUSE = 0.05
        settings = PoolSettings(
            runtime=folder / "run",
            max_executors=sessions + 2,
            idle_timeout=2.0,
            stop_timeout=2.0,
            ping_interval=1.0,
        )
        self.pool = Pool(settings, self, FileRecords(folder / "records"), on_end=self._on_end)

    def take_events(
        self, environment: ExecutionEnvironment, events: list[ReportMessageParams]
    ) -> None:
        executor = environment.executor_id
        self.ledger.add_events(
            [
                (e.task_id, e.sequence, executor, e.event_type, bytes(e.event_data).decode())
                for e in events
            ]
        )
        for event in events:
            environment.acknowledge(event.task_id, event.sequence)
            if event.event_type == "task_result":
                self.ledger.end(event.task_id, "completed")
                self._finished[event.task_id].set()

    def refuse_event(self, _: ExecutionEnvironment, error: InvalidParams) -> None:
        raise AssertionError(error.message)

    async def get_api_key(self, _: ExecutionEnvironment, __: GetApiKeyParams) -> GetApiKeyResult:
        raise HandlerFailed("there are no keys here")

    async def request_permission(
        self, _: ExecutionEnvironment, __: RequestPermissionParams
    ) -> RequestPermissionResult:
        return RequestPermissionResult(approved=True)

    def take_terminal(self, _: ExecutionEnvironment, __: ReportTerminalParams) -> None:
        raise AssertionError("nobody has opened a terminal")

    def _on_end(self, ending: Ending) -> None:
        if ending.survivors:
            self.ledger.fault(f"{ending.survivors} survivors of {ending.executor_id}")
        self._ended[ending.executor_id] = ending
        for task, _, executor in self.ledger.open_tasks():
            if executor == ending.executor_id:
                self.ledger.end(task, "failed", ending.in_words)
                self._finished[task].set()

    # ── work ─────────────────────────────────────────────────────────────────────────────────

    async def work(self) -> None:
        taken = await self.pool.open()
        alive = {one.pooled.executor_id for one in taken}
        for task, _, executor in self.ledger.open_tasks():
            if executor not in alive:
                self.ledger.end(task, "failed", "its executor died while nobody looked")
        print("ready", flush=True)
        resumed = {one.pooled.claim.session_id: one for one in taken if one.tasks}
        await asyncio.gather(
            *(
                self._session(f"s{number}", bool(resumed.get(f"s{number}")))
                for number in range(self.sessions)
            )
        )
        await self.pool.close(drain=True)
        self.ledger.close()

    async def _session(self, session: str, leased: bool) -> None:
        for task, of_session, executor in self.ledger.open_tasks():
            if of_session == session and executor is not None:
                await self._finished[task].wait()
        if leased:
            self.pool.release(session)
        while not self.stopping.is_set():
            task = f"{session}-{self.ledger.count(session)}"
            self.ledger.accept(task, session)
            await self._task(task, session)

    async def _task(self, task: str, session: str) -> None:
        claim = Claim(session_id=session, user_id=f"user-{session}")
        try:
            async with asyncio.timeout(PATIENCE), self.pool.lease(claim) as environment:
                self.ledger.dispatch(task, environment.executor_id)
                params = ExecutePromptParams(
                    session_token="token", session_id=session, task_id=task,
                    agentic_tool="scripted", prompt=script(task), cwd="/",
                )  # fmt: skip
                if environment.executor_id in self._ended:
                    self.ledger.end(task, "failed", "its executor died before it could begin")
                    return
                with contextlib.suppress(AgorError):
                    await environment.execute_prompt(params)
                await self._finished[task].wait()
        except AgorError as error:
            self.ledger.end(task, "failed", f"no executor: {error}")
        except TimeoutError:
            self.ledger.fault(f"{task} hangs")
            self.ledger.end(task, "failed", "hangs")


async def main(folder: Path, sessions: int) -> None:
    worker = Worker(folder, sessions)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stopping.set)
    await worker.work()


if __name__ == "__main__":
    logs.configure("info", "json")
    uvloop.run(main(Path(sys.argv[1]), int(sys.argv[2])))
