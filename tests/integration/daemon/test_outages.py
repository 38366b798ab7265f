"""The database cannot write for a while: work is refused, nothing is lost, all goes on after."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agor.client import Client
from agor.errors import StoreUnavailable
from agor.protocol.api import FeedEvent
from tests.integration.daemon.daemon_process import DaemonProcess, kill, running_daemon
from tests.integration.daemon.in_process import soon
from tests.store.postgres_server import PostgresServer, binaries

WORDS = [f"word{number} " for number in range(100)]
#: Some three seconds of words.
SLOWLY = [step for word in WORDS for step in ({"text": word}, {"delay_ms": 30})]
_DISK = 48 * 1024 * 1024


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    found = binaries()
    if found is None:
        pytest.skip("PostgreSQL is not installed")
    server = PostgresServer(found)
    try:
        server.create()
        yield server
    finally:
        server.remove()


@contextlib.contextmanager
def small_disk() -> Iterator[Path]:
    """A file system of its own, small enough to be filled."""
    if os.geteuid() != 0:
        pytest.skip("making a small disk needs root")
    folder = Path(tempfile.mkdtemp(prefix="agor-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        folder.rmdir()
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


class Watcher:
    """Follows a session from its beginning, whatever happens."""

    def __init__(self, client: Client, session: str) -> None:
        self.events: list[FeedEvent] = []
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._run(client, session))

    async def _run(self, client: Client, session: str) -> None:
        async for event in client.follow(session):
            self.events.append(event)
            self._news.set()

    async def until_said(self, word: str) -> None:
        async with asyncio.timeout(60):
            while word not in self.said:
                self._news.clear()
                await self._news.wait()

    @property
    def said(self) -> str:
        return "".join(
            event.data["text"]
            for event in self.events
            if event.type == "block_delta" and not event.data["block_id"].endswith("-prompt")
        )

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))


async def begin(client: Client, folder: Path, script: Any) -> tuple[str, str]:
    made = await soon(client.create_session(agentic_tool="scripted", workspace=str(folder)))
    accepted = await soon(client.prompt(made.session_id, json.dumps(script)))
    return made.session_id, accepted.task_id


async def refused(client: Client, session: str) -> None:
    """Wait until new work is refused, and say how."""
    async with asyncio.timeout(30):
        while True:
            try:
                accepted = await client.prompt(session, "too early")
            except StoreUnavailable:
                return
            await client.stop_task(accepted.task_id)


async def outlast(daemon: DaemonProcess, folder: Path, break_it: Any, mend_it: Any) -> None:
    async with daemon.client() as client:
        session, task_id = await begin(client, folder, SLOWLY)
        watcher = Watcher(client, session)
        await watcher.until_said("word10 ")
        await asyncio.to_thread(break_it)
        async with Client(daemon.url, daemon.token, attempts=1) as hasty:
            await refused(hasty, session)
            async with asyncio.timeout(30):
                while (await hasty.health()).status != "degraded":
                    await asyncio.sleep(0.01)
        shown = list(watcher.events)
        await asyncio.to_thread(mend_it)
        async with asyncio.timeout(60):
            assert (await client.wait_task(task_id)).status == "completed"
        await watcher.until_said(WORDS[-1])
        assert watcher.said == "".join(WORDS)
        assert watcher.events[: len(shown)] == shown
        sequences = [event.sequence for event in watcher.events]
        assert sequences == list(range(1, len(sequences) + 1))
        assert (await soon(client.health())).status == "ok"
        accepted = await soon(client.prompt(session, "and on"))
        async with asyncio.timeout(60):
            assert (await client.wait_task(accepted.task_id)).status == "completed"
        await watcher.close()


async def test_a_full_disk_stops_nothing_for_good(folder: Path):
    with small_disk() as disk:
        home = disk / "home"
        home.mkdir(mode=0o700)
        daemon = DaemonProcess(home)
        filler = disk / "filler"

        def fill() -> None:
            # Unbuffered: what does not fit must not come again when it is closed.
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(b"\0" * 65536):
                    pass

        try:
            daemon.start()
            await outlast(daemon, folder, fill, filler.unlink)
        finally:
            daemon.clean_up()


async def test_a_database_server_that_is_killed_stops_nothing_for_good(
    postgres: PostgresServer, folder: Path
):
    url = await postgres.empty_database()
    with running_daemon({"database.url": url}) as daemon:
        await outlast(daemon, folder, postgres.kill, postgres.start)


async def test_the_crash_contract_holds_on_postgresql(postgres: PostgresServer, folder: Path):
    url = await postgres.empty_database()
    with running_daemon({"database.url": url}) as daemon:
        async with daemon.client() as client:
            session, task_id = await begin(client, folder, SLOWLY)
            watcher = Watcher(client, session)
            for word in ("word10 ", "word40 ", "word70 "):
                await watcher.until_said(word)
                await asyncio.to_thread(daemon.kill)
                await asyncio.to_thread(daemon.start)
            async with asyncio.timeout(60):
                assert (await client.wait_task(task_id)).status == "completed"
            await watcher.until_said(WORDS[-1])
            assert watcher.said == "".join(WORDS)
            await watcher.close()


async def test_a_daemon_whose_database_server_is_gone_ends_when_told(
    postgres: PostgresServer, folder: Path
):
    """Also while one task has just lost its executor, and another one gets its place."""
    settings = {
        "database.url": await postgres.empty_database(),
        "daemon.stop_timeout_ms": 1000,
        "execution.max_executors": 1,
    }
    with running_daemon(settings) as daemon:
        async with daemon.client() as client:
            busy, _ = await begin(client, folder, SLOWLY)
            watcher = Watcher(client, busy)
            await watcher.until_said("word3 ")
            waiting, _ = await begin(client, folder, "in turn")
            async with asyncio.timeout(30):
                async for event in client.follow(waiting):
                    if event.type == "task" and event.data["status"] == "dispatching":
                        break
            await watcher.close()
        (executor,) = daemon.executors()
        await asyncio.to_thread(postgres.kill)
        assert kill(executor.executor)
        async with asyncio.timeout(30):
            while "executor_ended" not in daemon.log:
                await asyncio.sleep(0.01)
        await asyncio.to_thread(daemon.stop)
