"""The SQLite file: whose it is, and what happens when somebody else touches it."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agor.daemon.store import connect
from agor.daemon.store.base import Store
from agor.daemon.store.sqlite import file as database_file
from agor.daemon.store.sqlite import store as sqlite_store
from agor.daemon.store.sqlite.store import SqliteStore
from agor.daemon.store.sqlite.upkeep import Upkeep
from agor.errors import StoreError, StoreUnavailable, StoreUnusable
from tests.contract.waiting import soon, until
from tests.store.examples import sequences, some_events


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agor.db"


@pytest.fixture
def url(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    # No lock is let go while we wait for it here.
    monkeypatch.setattr(database_file, "_LOCK_SECONDS", 0.05)
    return f"sqlite:///{path}"


@pytest.fixture
async def store(path: Path, url: str) -> AsyncIterator[SqliteStore]:
    """A store whose file is looked at before every commit, and that is impatient."""
    store = SqliteStore(path, upkeep=Upkeep(check_seconds=0, busy_seconds=0.05))
    await store.open()
    yield store
    await store.close()


def modes(path: Path) -> set[int]:
    return {stat.S_IMODE(found.stat().st_mode) for found in path.parent.glob("agor.db*")}


async def test_nobody_else_can_read_the_file_and_what_lies_beside_it(url: str, path: Path):
    path.touch(0o666)
    mask = os.umask(0)
    try:
        store = connect(url)
        await store.open()
        await store.commit(some_events(1, 1, 1))
        assert len(list(path.parent.glob("agor.db*"))) == 4
        assert modes(path) == {0o600}
        await store.close()
        assert modes(path) == {0o600}
    finally:
        os.umask(mask)


async def test_every_commit_is_synced(store: Store):
    """FULL is what makes a commit outlast a power cut; nothing else in the tests can see it."""
    connection = store._file.connect()  # type: ignore[attr-defined]
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize("size", [100, 5000, 100_000])
async def test_a_file_that_is_no_database_is_refused_and_left_alone(
    url: str, path: Path, size: int
):
    garbage = random.Random(size).randbytes(size)
    path.write_bytes(garbage)
    store = connect(url)
    with pytest.raises(StoreUnusable, match="not an SQLite database") as refused:
        await store.open()
    assert refused.value.hint
    assert path.read_bytes() == garbage
    # Put right, it can be opened: nothing was kept locked.
    path.write_bytes(b"")
    await store.open()
    await store.close()


async def test_a_database_whose_pages_are_garbage_says_so(store: Store, url: str, path: Path):
    await store.commit(some_events(1, 1, 2000, b"x" * 500))
    await store.close()
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(os.urandom(path.stat().st_size - 8192))
    again = connect(url)

    async def use() -> None:
        await again.open()
        await again.read("SELECT COUNT(*) FROM events")

    with pytest.raises(StoreError, match=r"malformed|not an SQLite database"):
        await use()
    await again.close()


async def test_a_link_leads_to_the_one_database_and_its_log(
    store: Store, path: Path, tmp_path: Path
):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    link = folder / "link.db"
    link.symlink_to(path)
    second = connect(f"sqlite:///{link}")
    with pytest.raises(StoreUnusable, match="another daemon"):
        await second.open()
    await store.commit(some_events(1, 1, 1))
    await store.close()
    await second.open()
    await second.commit(some_events(1, 2, 2))
    assert second._file.log_written() > 0  # type: ignore[attr-defined]
    assert await sequences(second, 1) == [1, 2]
    await second.close()
    assert list(folder.iterdir()) == [link]


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"file/agor\.db") as refused:
        await connect(f"sqlite:///{tmp_path}/file/agor.db").open()
    assert refused.value.hint


async def test_while_another_program_writes_commits_fail_and_then_go_on(store: Store, path: Path):
    await store.commit(some_events(1, 1, 1))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked") as refused:
        await soon(store.commit(some_events(1, 2, 2)))
    assert "Another program" in (refused.value.hint or "")
    assert not store.available
    # Reading does not mind.
    assert await sequences(store, 1) == [1]
    other.execute("ROLLBACK")
    other.close()
    await soon(store.commit(some_events(1, 2, 2)))
    assert await sequences(store, 1) == [1, 2]


async def test_that_it_can_be_written_again_is_noticed_though_nobody_writes(
    store: Store, path: Path
):
    await store.commit(some_events(1, 1, 1))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        await soon(store.commit(some_events(1, 2, 2)))
    other.execute("ROLLBACK")
    other.close()
    await until(lambda: store.available)


async def test_nothing_is_acknowledged_into_a_file_that_was_taken_away(store: Store, path: Path):
    await store.commit(some_events(1, 1, 1))
    away = path.with_name("away.db")
    path.rename(away)
    with pytest.raises(StoreUnavailable, match="removed or replaced") as refused:
        await store.commit(some_events(1, 2, 2))
    assert refused.value.hint
    assert not store.available
    path.write_bytes(b"garbage")
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        await store.commit(some_events(1, 2, 2))
    away.replace(path)
    await soon(store.commit(some_events(1, 2, 2)))
    assert await sequences(store, 1) == [1, 2]


async def test_nothing_is_acknowledged_into_a_log_that_was_taken_away(store: Store, path: Path):
    await store.commit(some_events(1, 1, 1))
    path.with_name("agor.db-wal").rename(path.with_name("away"))
    with pytest.raises(StoreUnavailable, match="log was removed"):
        await store.commit(some_events(1, 2, 2))
    path.with_name("away").rename(path.with_name("agor.db-wal"))
    await soon(store.commit(some_events(1, 2, 2)))
    assert await sequences(store, 1) == [1, 2]


async def test_closing_is_bounded_when_the_disk_hangs(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sqlite_store, "_FLUSH_SECONDS", 0.2)
    store = SqliteStore(path, upkeep=Upkeep(busy_seconds=60))
    await store.open()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    under_way = asyncio.ensure_future(store.commit(some_events(1, 1, 1)))
    await until(lambda: store._line.held_writes and not store._line._ready)
    waiting = asyncio.ensure_future(store.commit(some_events(2, 1, 1)))
    await asyncio.sleep(0)
    await soon(store.close())
    # What became of them cannot be said, and is not said.
    for each in (under_way, waiting):
        with pytest.raises(asyncio.CancelledError):
            await soon(each)
    other.execute("ROLLBACK")
    other.close()


def test_the_lock_beside_the_file_is_not_the_file(path: Path, monkeypatch: pytest.MonkeyPatch):
    """SQLite's locks are lost when any descriptor of the file is closed: nobody may open it."""
    monkeypatch.setattr(database_file, "_LOCK_SECONDS", 0.05)
    one = database_file.DatabaseFile(path)
    one.claim()
    one.prepare()
    writing = one.connect()
    writing.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnusable):
        database_file.DatabaseFile(path).claim()
    other = sqlite3.connect(path, isolation_level=None, timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    other.close()
    writing.close()
    one.release()
