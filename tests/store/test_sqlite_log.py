"""SQLite's write-ahead log: emptied while commits go on, and bounded."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.store import connect
from agor.daemon.store.base import Store
from agor.daemon.store.sqlite.checkpoints import Checkpoints
from agor.daemon.store.sqlite.file import DatabaseFile
from agor.daemon.store.sqlite.frames import Group
from agor.daemon.store.sqlite.store import SqliteStore
from agor.daemon.store.sqlite.upkeep import Upkeep
from tests.contract.waiting import soon, until
from tests.store.examples import sequences, some_events

PAGE = 4096


#: A log that is emptied early and may have few pages.
SMALL = Upkeep(worth_bytes=64 * 1024, log_pages=500)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/agor.db"


@pytest.fixture
async def store(url: str) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(Path(url.removeprefix("sqlite:///")), upkeep=SMALL)
    await store.open()
    yield store
    await store.close()


def sizes(url: str) -> tuple[int, int]:
    """Tell how many bytes the database and its log have."""
    path = Path(url.removeprefix("sqlite:///"))
    return path.stat().st_size, path.with_name(f"{path.name}-wal").stat().st_size


async def write(store: Store, session: int, commits: int) -> None:
    for number in range(commits):
        first = number * 100 + 1
        await store.commit(some_events(session, first, first + 99, b"x" * 300))


async def test_the_log_moves_into_the_database_while_commits_go_on(store: Store, url: str):
    empty, _ = sizes(url)
    await soon(write(store, 1, 30))
    await until(lambda: sizes(url)[0] > empty + 500_000)


async def test_the_log_does_not_outgrow_its_bound_under_steady_load(store: Store, url: str):
    """Three writers leave no pause in which the log could be started anew by itself."""
    await soon(asyncio.gather(*(write(store, session, 150) for session in (1, 2, 3))))
    database, log = sizes(url)
    assert database > 10_000_000
    assert log < 6 * 500 * PAGE
    assert await store.read("PRAGMA integrity_check") == [("ok",)]


async def test_a_reader_that_stays_does_not_stop_the_commits(store: Store, url: str):
    await soon(write(store, 1, 2))
    reader = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT COUNT(*) FROM events").fetchone() == (200,)
    await soon(write(store, 2, 150))
    assert len(await sequences(store, 2)) == 15_000
    assert reader.execute("SELECT COUNT(*) FROM events").fetchone() == (200,)
    reader.close()
    # And when it is gone the log is emptied after all.
    await soon(write(store, 3, 150))
    _, grown = sizes(url)
    await soon(write(store, 4, 100))
    assert sizes(url)[1] <= grown


async def test_closing_leaves_no_log_behind(store: Store, url: str):
    await soon(write(store, 1, 10))
    await store.close()
    path = Path(url.removeprefix("sqlite:///"))
    assert not path.with_name("agor.db-wal").exists()
    again = connect(url)
    await again.open()
    assert len(await sequences(again, 1)) == 1000
    await again.close()


@pytest.fixture
def file(url: str) -> Iterator[DatabaseFile]:
    file = DatabaseFile(Path(url.removeprefix("sqlite:///")))
    file.claim()
    file.prepare()
    yield file
    file.release()


#: A group with nothing in it.
NOTHING = Group(0, 0, 0, [])


def say_nothing(event: str, **members: Any) -> None:
    """Be the log of a checkpoint that has nothing to complain about."""


def commit(emptying: Checkpoints, connection: sqlite3.Connection, number: int) -> None:
    emptying.begin()
    connection.execute("UPDATE last_commit SET number = ?", (number,))
    emptying.committed(NOTHING)


def age(file: DatabaseFile, emptying: Checkpoints) -> None:
    """Make the log look older: the clock of files is too coarse for two writes in a row."""
    os.utime(file._log, ns=(1, 1))
    emptying._written = file.log_written()


def test_a_checkpoint_begins_only_after_a_commit_that_came_after_the_last_one(file: DatabaseFile):
    """Older versions of SQLite can damage a database else: see the module."""
    emptying, connection = Checkpoints(file, say_nothing), file.connect()
    assert not emptying._is_due()
    commit(emptying, connection, 1001)
    assert emptying._is_due()
    emptying._move(connection)
    emptying.finish(connection)
    assert not emptying._is_due()
    age(file, emptying)
    # A commit that changes nothing writes nothing into the log.
    commit(emptying, connection, 1001)
    assert not emptying._is_due()
    commit(emptying, connection, 1002)
    assert emptying._is_due()
    # One that had begun before the last checkpoint ended may have been moved with it.
    emptying.begin()
    emptying._move(connection)
    emptying._over, emptying._written = False, 0
    emptying.committed(NOTHING)
    assert not emptying._is_due()
    connection.close()


@pytest.mark.parametrize("limit", [1, 1000])
def test_while_it_is_the_writers_turn_no_other_checkpoint_begins(file: DatabaseFile, limit: int):
    file.upkeep = Upkeep(log_pages=limit)
    emptying, connection = Checkpoints(file, say_nothing), file.connect()
    commit(emptying, connection, 1001)
    emptying._move(connection)
    age(file, emptying)
    commit(emptying, connection, 1002)
    assert not emptying._is_due()
    emptying.finish(connection)
    age(file, emptying)
    # The log begins anew with the next commit.
    commit(emptying, connection, 1003)
    assert emptying._is_due()
    assert connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1] == 1
    connection.close()
