"""A backup of a busy daemon, restored elsewhere: nothing is missing, and nothing runs twice."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest

from agor.client import Client
from agor.daemon.services.audit.anchors import AnchorFile
from agor.protocol.api import FeedEvent
from tests.integration.daemon.client_steps import PATIENCE, begin, say, to_the_end
from tests.integration.daemon.daemon_process import DaemonProcess, running_daemon
from tests.store.postgres_server import PostgresServer

AGOR = Path(sys.executable).parent / "agor"
#: A program whose output goes on until it is stopped: each line is an event.
ENDLESS = {"run": ["sh", "-c", "while :; do echo line; sleep 0.002; done"]}


def agor(home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command on a home, and wait for its end."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AGOR_")}
    return subprocess.run(
        [AGOR, *arguments],
        env=clean | {"AGOR_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )


async def well(home: Path, *arguments: str | Path) -> str:
    done = await asyncio.to_thread(agor, home, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def elsewhere() -> Iterator[DaemonProcess]:
    """A home with nothing in it, and no daemon yet."""
    home = Path(tempfile.mkdtemp(prefix="agor-"))
    daemon = DaemonProcess(home)
    yield daemon
    daemon.clean_up()
    shutil.rmtree(home)


@pytest.fixture(params=["sqlite", "postgresql"])
async def urls(request: pytest.FixtureRequest) -> AsyncIterator[tuple[str, str] | None]:
    """Two empty databases on a server; None where the database is a file of the home."""
    if request.param == "sqlite":
        yield None
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = await server.empty_database()
    connection = await asyncpg.connect(url)
    await connection.execute("DROP DATABASE IF EXISTS restored")
    await connection.execute("CREATE DATABASE restored")
    await connection.close()
    yield url, server.url("restored")


async def events_until(client: Client, session: str, count: int) -> list[FeedEvent]:
    """The first events of a feed."""
    async with asyncio.timeout(4 * PATIENCE):
        feed = client.follow(session)
        return [await anext(feed) for _ in range(count)]


async def test_a_backup_of_a_busy_daemon_has_every_event_and_its_tasks_end(
    urls: tuple[str, str] | None, elsewhere: DaemonProcess, tmp_path: Path
):
    backup = tmp_path / "agor.tar"
    settings = {} if urls is None else {"database.url": urls[0]}
    with running_daemon(settings) as daemon:
        async with daemon.client() as client:
            done = await begin(client)
            first = await say(client, done, {"text": "before"})
            await to_the_end(client.follow(done), first)
            session = await begin(client)
            running = await say(client, session, ENDLESS)
            waiting = await say(client, session, {"text": "after"})
            seen = len(await events_until(client, session, 50))
            said = await well(daemon.home.folder, "backup", backup)
            assert "verified" in said
            # Lines came all the while, and still come.
            last = (await client.messages(session, limit=1)).sequence
            original = await events_until(client, session, last + 1)
        assert backup.stat().st_mode & 0o777 == 0o600
        if urls is not None:
            elsewhere.configure({"database.url": urls[1]})
        said = await well(elsewhere.home.folder, "restore", backup, "--yes")
        assert "aside" not in said
        await asyncio.to_thread(elsewhere.start)
        async with elsewhere.client() as client:
            restored = await to_the_end(client.follow(session), waiting)
            ends = {task: (await client.task(task)).status for task in (first, running, waiting)}
        assert ends == {first: "completed", running: "failed", waiting: "stopped"}
        assert [event.sequence for event in restored] == list(range(1, len(restored) + 1))
        alike = sum(1 for one, other in zip(original, restored, strict=False) if one == other)
        assert alike >= seen
        assert restored[:alike] == original[:alike]
        assert {event.type for event in restored[alike:]} <= {"task", "session"}
        assert "as it was written" in await well(elsewhere.home.folder, "audit", "verify")


async def test_a_restored_session_goes_on(elsewhere: DaemonProcess, tmp_path: Path):
    backup = tmp_path / "agor.tar"
    with running_daemon() as daemon:
        async with daemon.client() as client:
            session = await begin(client)
            await to_the_end(client.follow(session), await say(client, session, {"text": "one"}))
        await well(daemon.home.folder, "backup", backup)
    await well(elsewhere.home.folder, "restore", backup, "--yes")
    await asyncio.to_thread(elsewhere.start)
    async with elsewhere.client() as client:
        await to_the_end(client.follow(session), await say(client, session, {"text": "two"}))
        texts = [
            each.text for each in (await client.messages(session)).items if each.kind == "text"
        ]
    assert texts == ["one", "two"]


async def test_what_a_killed_daemon_left_in_its_log_is_in_the_backup(
    elsewhere: DaemonProcess, tmp_path: Path
):
    backup = tmp_path / "agor.tar"
    with running_daemon() as daemon:
        async with daemon.client() as client:
            session = await begin(client)
            done = await to_the_end(
                client.follow(session), await say(client, session, {"text": "x"})
            )
        daemon.kill()
        await well(daemon.home.folder, "backup", backup)
    await well(elsewhere.home.folder, "restore", backup, "--yes")
    await asyncio.to_thread(elsewhere.start)
    async with elsewhere.client() as client:
        assert await events_until(client, session, len(done)) == done


async def test_an_older_backup_moves_the_newer_database_aside_and_the_log_says_so(tmp_path: Path):
    backup = tmp_path / "agor.tar"
    with running_daemon() as daemon:
        home = daemon.home.folder
        async with daemon.client() as client:
            before = await begin(client)
            await well(home, "backup", backup)
            after = await begin(client)
        refused = await asyncio.to_thread(agor, home, "restore", backup, "--yes")
        assert refused.returncode == 1
        assert "a daemon serves" in refused.stderr
        daemon.stop()
        last = AnchorFile(daemon.home.anchor_file).read()[-1]
        unsure = await asyncio.to_thread(agor, home, "restore", backup)
        assert unsure.returncode == 1
        assert AnchorFile(daemon.home.anchor_file).read()[-1] == last
        said = await well(home, "restore", backup, "--yes")
        [aside] = home.glob("before-restore-*")
        assert str(aside / "agor.db") in said
        assert AnchorFile(aside / "audit.anchors").read()[-1] == last
        # What was moved aside is a whole home, as far as its log goes.
        assert "as it was written" in await well(aside, "audit", "verify")
        await asyncio.to_thread(daemon.start)
        async with daemon.client() as client:
            assert [each.session_id async for each in client.sessions()] == [before]
            assert before != after
        assert "as it was written" in await well(home, "audit", "verify")
        listed = await well(home, "audit", "list", "--action", "database.restored", "--json")
        detail = json.loads(listed)["detail"]
        assert (detail["replaced_number"], detail["replaced_hash"]) == (
            last.number,
            last.hash.hex(),
        )
        # It is said once.
        daemon.restart()
        again = await well(home, "audit", "list", "--action", "database.restored", "--json")
        assert again.count("\n") == listed.count("\n")
