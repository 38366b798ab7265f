"""Restoring into a PostgreSQL database: old tables move aside, all in one transaction."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from agor.config import load
from agor.daemon.backup.backup import make_backup
from agor.daemon.backup.pending import finish_pending, plan_file
from agor.daemon.backup.postgres_restore import Target, has_schema, waiting_for
from agor.daemon.store import connect
from agor.errors import BackupFailed, StoreUnusable
from agor.home import Home
from tests.contract.waiting import PATIENCE
from tests.integration.daemon.backup_site import MARK, Site, empty_database
from tests.store.postgres_server import PostgresServer


@pytest.fixture
async def site(postgres: PostgresServer, folder: Path) -> Site:
    made = Site(await empty_database(postgres), folder)
    await made.prepare()
    return made


class Killed(BaseException):
    """As if the process had ended here."""


async def test_what_was_there_is_in_a_schema_of_its_own(site: Site):
    await site.restore()
    [aside] = await site.asides()
    assert await site.ask(MARK.format(schema="public")) == ["backed up"]
    assert await site.ask(MARK.format(schema=aside)) == ["since"]
    store = connect(site.url)
    await store.open()
    await store.close()


async def test_it_can_be_backed_up_and_restored_again(site: Site):
    await site.restore()
    await make_backup(site.home, site.backup, force=True)
    await site.restore()
    assert len(await site.asides()) == 2
    assert await site.ask(MARK.format(schema="public")) == ["backed up"]


async def test_a_database_that_a_daemon_uses_is_refused(site: Site):
    store = connect(site.url)
    await store.open()
    try:
        with pytest.raises(StoreUnusable, match="another daemon"):
            await site.restore()
    finally:
        await store.close()
    assert await site.ask(MARK.format(schema="public")) == ["since"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_restore_that_is_killed_is_dropped_or_finished(
    site: Site, when: str, monkeypatch: pytest.MonkeyPatch
):
    replace = Target.replace

    async def dying(self: Target, dump: Path, aside: str) -> None:
        if when == "after":
            await replace(self, dump, aside)
        raise Killed

    async def dead(_: Home) -> bool:
        raise Killed

    monkeypatch.setattr(Target, "replace", dying)
    monkeypatch.setattr("agor.daemon.backup.restore.finish_pending", _only_first(dead))
    with pytest.raises(Killed):
        await site.restore()
    assert plan_file(site.home).exists()
    with site.home.lock():
        assert await finish_pending(site.home)
    counts = when == "after"
    expected = "backed up" if counts else "since"
    assert await site.ask(MARK.format(schema="public")) == [expected]
    assert (site.home.folder / "restored.json").exists() == counts
    assert len(await site.asides()) == int(counts)
    assert not list(site.home.folder.glob(".*restore*"))


#: Runs `agor` until it is about to do one thing to a file with a certain name, and is killed there.
DYING = """
import os, signal, sys
from pathlib import Path
from agor.cli.main import main

what, name = sys.argv[1:3]
del sys.argv[1:3]
rename, unlink = Path.rename, Path.unlink

def dying_rename(self, target):
    moved = rename(self, target)
    if (what, name) == ("moved", Path(target).name):
        os.kill(os.getpid(), signal.SIGKILL)
    return moved

def dying_unlink(self, missing_ok=False):
    if (what, name) == ("removing", self.name):
        os.kill(os.getpid(), signal.SIGKILL)
    unlink(self, missing_ok)

Path.rename, Path.unlink = dying_rename, dying_unlink
main()
"""


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("moved", "config.yaml"),
        ("moved", "restored.json"),
        ("removing", "restore-plan.json"),
    ],
)
async def test_a_restore_into_an_empty_home_that_is_killed_is_finished(
    site: Site, folder: Path, what: str, name: str
):
    other = Home(folder / "other")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AGOR_")}
    killed = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DYING, what, name, "restore", str(site.backup), "--yes"),
        env=clean | {"AGOR_HOME": str(other.folder)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(2 * PATIENCE):
        assert await killed.wait() == -signal.SIGKILL
    assert plan_file(other).exists()
    with other.lock():
        assert await finish_pending(other)
        assert not await finish_pending(other)
    assert load(other.folder).database.url == site.url
    assert await site.ask(MARK.format(schema="public")) == ["backed up"]
    assert (other.folder / "restored.json").exists()
    assert not list(other.folder.glob(".*restore*"))
    await make_backup(other, folder / "again.tar")


async def test_whether_a_restore_counts_is_told_only_when_its_transaction_has_ended(site: Site):
    schema = "agor_before_restore_x"
    connection = await asyncpg.connect(site.url)
    try:
        # As psql, which the server goes on to serve after its master was killed.
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(waiting_for(schema))
        await connection.execute(f"CREATE SCHEMA {schema}")
        looking = asyncio.create_task(has_schema(site.url, schema))
        async with asyncio.timeout(PATIENCE):
            while not looking.done() and not await site.ask(
                "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            ):
                await asyncio.sleep(0.01)
        await transaction.commit()
        assert await looking
    finally:
        await connection.close()


def _only_first(dead: Any) -> Any:
    """Be `finish_pending` the first time, and dead from then on."""
    calls = iter([finish_pending])

    async def call(home: Home) -> bool:
        found: bool = await next(calls, dead)(home)
        return found

    return call


async def test_a_dump_that_cannot_be_read_changes_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
):
    replace = Target.replace

    async def damaged(self: Target, dump: Path, aside: str) -> None:
        data = dump.read_bytes()
        dump.write_bytes(data[: len(data) * 3 // 4])
        await replace(self, dump, aside)

    monkeypatch.setattr(Target, "replace", damaged)
    with pytest.raises(BackupFailed):
        await site.restore()
    assert await site.ask(MARK.format(schema="public")) == ["since"]
    assert await site.asides() == []
    assert not plan_file(site.home).exists()
