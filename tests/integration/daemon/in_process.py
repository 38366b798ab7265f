"""A daemon inside the test's process: real services and store, real executors or hostile ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from agor.config import load
from agor.daemon.main import Daemon
from agor.daemon.pool.direct import DirectExecutors, InProcess
from agor.daemon.services.feed import Follower
from agor.daemon.services.principal import Principal
from agor.daemon.settings import pool_settings
from agor.home import Home
from agor.protocol.api import Decision, NewPrompt, NewSession, Permission, Task
from tests.database import put_database

T = TypeVar("T")
PATIENCE = 20.0
ENDED = ("completed", "failed", "stopped", "timed_out")


async def soon(work: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE):
        return await work


class DaemonWith(Daemon):
    """A daemon whose executors are made by the test."""

    make: Callable[[], InProcess]

    def _make_executors(self) -> DirectExecutors:
        settings = pool_settings(self._config, self._home)
        return DirectExecutors(settings, self.intake, lambda: self.make(), self._executor_ended)


class Desk:
    """One person at a daemon."""

    def __init__(self, daemon: Daemon, who: Principal, workspace: Path) -> None:
        self.daemon = daemon
        self.who = who
        self.workspace = workspace

    async def session(self, **more: Any) -> str:
        new = NewSession(agentic_tool="scripted", workspace=str(self.workspace), **more)
        return (await soon(self.daemon.sessions.create(self.who, new))).session_id

    async def prompt(self, session_id: str, script: Any, **more: Any) -> str:
        text = script if isinstance(script, str) else json.dumps(script)
        accepted = await soon(
            self.daemon.tasks.prompt(self.who, session_id, NewPrompt(prompt=text, **more))
        )
        return accepted.task_id

    async def task(self, task_id: str) -> Task:
        return await soon(self.daemon.tasks.get(self.who, task_id))

    async def until(
        self, session_id: str, happened: Callable[[dict[str, Any]], object]
    ) -> dict[str, Any]:
        """Follow a session's feed from its beginning until an event fits."""
        async with self.following(session_id) as events:
            async with asyncio.timeout(PATIENCE):
                async for event in events:
                    if happened(event):
                        return event
        raise AssertionError("the feed ended")

    async def ended(self, session_id: str, task_id: str) -> Task:
        """Wait for the end of a task."""
        await self.until(
            session_id,
            lambda event: (
                event["type"] == "task"
                and event["task_id"] == task_id
                and event["data"]["status"] in ENDED
            ),
        )
        return await self.task(task_id)

    async def status(self, session_id: str, task_id: str, status: str) -> None:
        """Wait until a task has had this status."""
        await self.until(
            session_id,
            lambda event: (
                event["type"] == "task"
                and event["task_id"] == task_id
                and event["data"]["status"] == status
            ),
        )

    async def asked(self, session_id: str) -> Permission:
        """Wait for a permission request."""
        event = await self.until(session_id, lambda event: event["type"] == "permission")
        return await soon(self.daemon.permissions.get(self.who, event["data"]["permission_id"]))

    async def decide(self, permission_id: str, **decision: Any) -> Permission:
        return await soon(
            self.daemon.permissions.decide(self.who, permission_id, Decision(**decision))
        )

    @contextlib.asynccontextmanager
    async def following(
        self, session_id: str, after: int = 0
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        channel = await soon(self.daemon.feed.open(self.who, session_id, after))
        reader = Reader(after)
        running = asyncio.create_task(reader.run(channel))
        try:
            yield reader.events()
        finally:
            running.cancel()
            await asyncio.wait((running,))

    async def texts(self, session_id: str) -> list[tuple[str, str]]:
        """Kind and text of every block."""
        found = await soon(self.daemon.conversations.page(self.who, session_id, None, 200))
        return [(message.kind, message.text) for message in found.items]


class Reader(Follower):
    """A follower that hands events to a test, and can be slow."""

    def __init__(self, cursor: int) -> None:
        super().__init__(cursor, self, lambda chunk: b"\n".join(chunk.bodies))
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.slow = False
        self.when_congested: Callable[[], None] | None = None
        self._relief = asyncio.Event()

    @property
    def congested(self) -> bool:
        return self.slow

    @property
    def push(self) -> Callable[[bytes], None]:
        return self.write

    def write(self, data: bytes) -> None:
        for body in data.split(b"\n"):
            self._queue.put_nowait(body)
        if self.slow and self.when_congested is not None:
            self.when_congested()

    async def drain(self) -> None:
        while self.slow:
            self._relief.clear()
            await self._relief.wait()

    def abort(self) -> None:
        raise AssertionError("it never fails")

    def hurry(self) -> None:
        self.slow = False
        self._relief.set()

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        while True:
            yield json.loads(await self._queue.get())


@contextlib.asynccontextmanager
async def desk_in(
    folder: Path, make: Callable[[], InProcess] | None = None, **settings: Any
) -> AsyncIterator[Desk]:
    """Open a daemon on a folder. Settings are `section__key=value`."""
    home = Home(folder / "home")
    home.prepare()
    put_database(home.folder)
    # Nothing may outlive the test.
    settings = {"daemon__drain_on_stop": "true", "execution__orphan_timeout_ms": 1000} | settings
    env = {f"AGOR_{name.upper()}": str(value) for name, value in settings.items()}
    config = load(home.folder, env)
    daemon: Daemon
    if make is None:
        daemon = Daemon(config, home)
    else:
        DaemonWith.make = staticmethod(make)
        daemon = DaemonWith(config, home)
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    async with daemon.working() as who:
        yield Desk(daemon, who, workspace)
