"""Restoring into a PostgreSQL database: old tables move aside, all in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from agor.config.editing import set_value
from agor.daemon.backup.backup import make_backup
from agor.daemon.backup.pending import finish_pending, plan_file
from agor.daemon.backup.postgres_restore import Target, has_schema, waiting_for
from agor.daemon.backup.restore import restore_backup
from agor.daemon.store import connect
from agor.errors import BackupFailed, StoreUnusable
from agor.home import Home
from tests.contract.waiting import PATIENCE
from tests.store.postgres_server import PostgresServer, binaries

MARK = "SELECT scope FROM {schema}.receipts"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    found = binaries()
    if found is None:
        pytest.skip("no PostgreSQL here (no initdb)")
    server = PostgresServer(found)
    try:
        server.create()
        yield server
    finally:
        server.remove()


class Site:
    """A home on a database, its backup, and what is in them."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.home = Home(folder / "home")
        self.backup = folder / "b.tar"

    async def prepare(self) -> None:
        """Back up a database marked `backed up`, and mark it `since` afterwards."""
        self.home.prepare()
        set_value(self.home, "database.url", self.url)
        store = connect(self.url)
        await store.open()
        await store.close()
        await self.mark("backed up")
        await make_backup(self.home, self.backup)
        await self.mark("since")

    async def mark(self, word: str) -> None:
        await self.ask("DELETE FROM receipts")
        await self.ask("INSERT INTO receipts VALUES ($1, '', '', 200, 0, '')", word)

    async def ask(self, sql: str, *values: Any) -> list[Any]:
        connection = await asyncpg.connect(self.url)
        try:
            return [row[0] for row in await connection.fetch(sql, *values)]
        finally:
            await connection.close()

    async def asides(self) -> list[str]:
        return await self.ask(
            "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'agor_before_restore_%'"
        )

    async def restore(self) -> None:
        assert await restore_backup(self.home, self.backup, lambda *_: True) is not None


@pytest.fixture
async def site(postgres: PostgresServer, folder: Path) -> Site:
    url = await postgres.empty_database()
    connection = await asyncpg.connect(url)
    for (name,) in await connection.fetch(
        "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'agor_before_restore_%'"
    ):
        await connection.execute(f'DROP SCHEMA "{name}" CASCADE')
    await connection.close()
    made = Site(url, folder)
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
    assert not list(site.home.folder.glob(".restore*"))


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
