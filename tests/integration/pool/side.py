"""A host for the pool in tests: takes every event, and says what came."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from agor.daemon.pool.ending import Ending
from agor.daemon.pool.pool import Pool
from agor.daemon.pool.records import FileRecords
from agor.daemon.pool.settings import Claim, PoolSettings
from agor.errors import HandlerFailed, InvalidParams
from agor.execution import ExecutionEnvironment
from agor.linux import family, process_of
from agor.protocol.events import BlockDelta, TaskResult, decode_event
from agor.protocol.methods import (
    ExecutePromptParams,
    GetApiKeyParams,
    GetApiKeyResult,
    ReportMessageParams,
    RequestPermissionParams,
    RequestPermissionResult,
)
from agor.protocol.terminals import ReportTerminalParams

T = TypeVar("T")

PATIENCE = 15.0


class Side:
    """What the pool's executors report, and how they ended."""

    def __init__(self) -> None:
        self.events: dict[str, list[ReportMessageParams]] = defaultdict(list)
        self.printed: dict[str, bytes] = defaultdict(bytes)
        self.exit_codes: dict[str, int] = {}
        self.endings: list[Ending] = []
        self.acknowledge = True
        self._news = asyncio.Event()

    def take_events(
        self, environment: ExecutionEnvironment, events: list[ReportMessageParams]
    ) -> None:
        for event in events:
            self.events[event.task_id].append(event)
            if self.acknowledge:
                environment.acknowledge(event.task_id, event.sequence)
        self._news.set()

    def refuse_event(self, _: ExecutionEnvironment, error: InvalidParams) -> None:
        raise AssertionError(error.message)

    async def get_api_key(self, _: ExecutionEnvironment, __: GetApiKeyParams) -> GetApiKeyResult:
        raise HandlerFailed("there are no keys here")

    async def request_permission(
        self, _: ExecutionEnvironment, __: RequestPermissionParams
    ) -> RequestPermissionResult:
        return RequestPermissionResult(approved=True)

    def take_terminal(
        self, environment: ExecutionEnvironment, report: ReportTerminalParams
    ) -> None:
        self.printed[report.terminal_id] += report.data
        if report.exit_code is not None:
            self.exit_codes[report.terminal_id] = report.exit_code
        environment.terminals.acknowledge(report.terminal_id, report.offset + len(report.data))
        self._news.set()

    async def look(self, environment: ExecutionEnvironment, terminal_id: str) -> None:
        """Have what a terminal has printed, and what it prints from now on."""
        self.printed[terminal_id] = b""
        answer = await environment.terminals.attach(terminal_id)
        # What follows the answer may be here before it.
        self.printed[terminal_id] = answer.data + self.printed[terminal_id]

    def on_end(self, ending: Ending) -> None:
        self.endings.append(ending)
        self._news.set()

    async def until(self, happened: Callable[[], object]) -> None:
        """Wait until something has happened."""
        async with asyncio.timeout(PATIENCE):
            while not happened():
                self._news.clear()
                await self._news.wait()

    def text(self, task_id: str) -> str:
        """All deltas of a task put together."""
        events = (decode_event(e.event_type, e.event_data) for e in self.events[task_id])
        return "".join(event.text for event in events if isinstance(event, BlockDelta))

    def sequences(self, task_id: str) -> list[int]:
        return [event.sequence for event in self.events[task_id]]


@contextlib.asynccontextmanager
async def pool_in(
    folder: Path, side: Side | None = None, *, drain: bool = True, **settings: Any
) -> AsyncIterator[tuple[Pool, Side]]:
    """Open a pool on a folder, and close it."""
    side = side or Side()
    pool = Pool(
        PoolSettings(runtime=folder / "run", **settings),
        side,
        FileRecords(folder / "records"),
        on_end=side.on_end,
    )
    try:
        await soon(pool.open())
        yield pool, side
    finally:
        await soon(pool.close(drain=drain))


def claim(session: str, user: str = "anna", unix: str | None = None) -> Claim:
    return Claim(session_id=session, user_id=user, unix_username=unix)


def prompt(script: Any, task_id: str = "task", **more: Any) -> ExecutePromptParams:
    members: dict[str, Any] = {
        "session_token": "token",
        "session_id": "session",
        "task_id": task_id,
        "agentic_tool": "scripted",
        "prompt": script if isinstance(script, str) else json.dumps(script),
        "cwd": "/",
    }
    return ExecutePromptParams(**(members | more))


async def run(environment: ExecutionEnvironment, script: Any, task_id: str = "task") -> TaskResult:
    """Run a script to its end."""
    return await soon(environment.execute_prompt(prompt(script, task_id)))


def tree_of(environment: ExecutionEnvironment) -> list[int]:
    """The pids of an executor and all below it."""
    assert environment.info is not None
    root = process_of(environment.info.pid)
    return [] if root is None else [process.pid for process in family([root])]


def left_in(folder: Path) -> list[str]:
    """What a pool has left of its executors on disk."""
    return [path.name for path in (folder / "run" / "executors").iterdir()] + [
        path.name for path in (folder / "records").iterdir()
    ]


def open_files() -> int:
    """Count our descriptors; the event loop keeps one of /dev/null for bad days, once for all."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += str(link.readlink()) != "/dev/null"
    return found


async def soon(work: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE):
        return await work
