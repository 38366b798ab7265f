"""The process that writes to SQLite dies, or its daemon does: nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.store import connect
from agor.daemon.store.base import Statement, Write
from agor.daemon.store.sqlite import process
from agor.daemon.store.sqlite.frames import Answer, Done
from agor.daemon.store.sqlite.store import SqliteStore
from agor.errors import StoreError, StoreUnavailable
from tests import nursery
from tests.contract.waiting import soon, until
from tests.store.examples import a_record, pid_of_writer, sequences, some_events

KILLS = 12
PRODUCERS = 6
BAD = Write([Statement("INSERT INTO nowhere VALUES (?)", (1,))])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agor.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    yield store
    await store.close()


def noted(session: int, sequence: int) -> Write:
    """One event, and one record in the audit log."""
    return some_events(session, sequence, sequence)._replace(records=[a_record()])


async def count_records(store: SqliteStore) -> int:
    ((found,),) = await store.read("SELECT COUNT(*) FROM audit")
    return int(found)


def kill_writer(store: SqliteStore) -> None:
    os.kill(pid_of_writer(store), signal.SIGKILL)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program has the database: a commit waits for it."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


async def until_handed_over(store: SqliteStore) -> None:
    await until(lambda: bool(store._scribe._group) and store._scribe._process is not None)


def die_over_the_next_answer(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the writer killed when it has committed, and what it says of that be lost."""
    take = store._scribe.take

    def lose(answer: Answer) -> None:
        if isinstance(answer, Done):
            monkeypatch.setattr(store._scribe, "take", take)
            kill_writer(store)
        else:
            take(answer)

    monkeypatch.setattr(store._scribe, "take", lose)


async def test_killed_at_any_moment_it_loses_nothing_and_writes_nothing_twice(store: SqliteStore):
    chance = random.Random(11)
    stored = [0] * PRODUCERS
    going = True

    async def produce(session: int) -> None:
        while going:
            await store.commit(noted(session + 1, stored[session] + 1))
            stored[session] += 1

    producing = [asyncio.create_task(produce(session)) for session in range(PRODUCERS)]
    for _ in range(KILLS):
        enough = sum(stored) + chance.randrange(1, 60)
        while sum(stored) < enough or store._scribe._process is None:
            await asyncio.sleep(0)
        kill_writer(store)
    going = False
    await soon(asyncio.gather(*producing))
    for session in range(PRODUCERS):
        assert await sequences(store, session + 1) == list(range(1, stored[session] + 1))
    assert await count_records(store) == sum(stored)
    assert await store.read("PRAGMA integrity_check") == [("ok",)]


async def test_what_was_committed_and_not_told_is_not_written_again(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
):
    die_over_the_next_answer(store, monkeypatch)
    await soon(store.commit(noted(1, 1)))
    assert await count_records(store) == 1
    await soon(store.commit(noted(1, 2)))
    assert await sequences(store, 1) == [1, 2]


async def test_which_writes_were_refused_is_known_even_if_it_died_after_the_commit(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
):
    die_over_the_next_answer(store, monkeypatch)
    outcomes = await soon(
        asyncio.gather(
            store.commit(noted(1, 1)), store.commit(BAD), store.commit(noted(2, 1)),
            return_exceptions=True,
        )
    )  # fmt: skip
    assert outcomes[0] is outcomes[2] is None
    assert isinstance(outcomes[1], StoreError)
    assert "nowhere" in str(outcomes[1])
    assert await count_records(store) == 2


async def handed_over_again(store: SqliteStore) -> asyncio.Future[None]:
    """Have the writer die over a commit, and the next one at it."""
    commit = asyncio.ensure_future(store.commit(noted(1, 1)))
    await until_handed_over(store)
    kill_writer(store)
    await until(lambda: store._scribe._process is None)
    await until_handed_over(store)
    return commit


async def test_what_it_died_over_is_handed_to_the_next_one(store: SqliteStore, path: Path):
    with locked(path):
        commit = await handed_over_again(store)
        assert not commit.done()
    await soon(commit)
    assert await sequences(store, 1) == [1]
    assert await count_records(store) == 1


async def test_a_death_over_nothing_is_not_held_against_the_next_group(
    store: SqliteStore, path: Path
):
    kill_writer(store)
    await until(lambda: store._scribe._process is None)
    await until(lambda: store._scribe._process is not None)
    with locked(path):
        commit = await handed_over_again(store)
    await soon(commit)
    assert await sequences(store, 1) == [1]


async def test_what_kills_every_writer_is_refused_and_the_others_go_on(
    store: SqliteStore, path: Path
):
    with locked(path):
        commit = asyncio.ensure_future(store.commit(noted(1, 1)))
        for _ in range(2):
            await until_handed_over(store)
            kill_writer(store)
            await until(lambda: store._scribe._process is None)
    with pytest.raises(StoreUnavailable, match="died over this"):
        await soon(commit)
    await soon(store.commit(noted(2, 1)))
    assert await sequences(store, 1) == []
    assert await count_records(store) == 1


def fail(*_: object) -> None:
    raise OSError(11, "Resource temporarily unavailable")


@pytest.mark.parametrize("lacking", ["process.spawn", "process.socket.socketpair"])
async def test_while_none_can_be_started_writes_are_refused_and_then_go_on(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, lacking: str
):
    with monkeypatch.context() as patch:
        patch.setattr(f"agor.daemon.store.sqlite.{lacking}", fail)
        kill_writer(store)
        await until(lambda: not store.available)
        with pytest.raises(StoreUnavailable, match="temporarily unavailable"):
            await soon(store.commit(noted(1, 1)))
    await until(lambda: store.available)
    await soon(store.commit(noted(1, 1)))
    assert await sequences(store, 1) == [1]


async def test_closing_while_none_can_be_started_is_bounded(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = SqliteStore(path)
    await store.open()
    with monkeypatch.context() as patch:
        patch.setattr(process, "spawn", fail)
        kill_writer(store)
        await until(lambda: not store.available)
        await soon(store.close())
    await store.open()
    await soon(store.commit(noted(1, 1)))
    await store.close()


async def test_a_start_that_is_called_off_leaves_nobody_behind(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    started: list[nursery.Forked] = []

    def note(*given: Any) -> nursery.Forked:
        started.append(nursery.spawn_writer(*given))
        return started[-1]

    monkeypatch.setattr(process, "spawn", note)
    store = SqliteStore(path)
    opening = asyncio.create_task(store.open())
    await until(lambda: bool(started))
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(opening)
    assert started[0].poll() is not None
    await store.open()
    await store.close()


async def test_only_the_daemons_end_ends_it(store: SqliteStore):
    """Ctrl-C and a service manager signal all processes of a daemon, which has more to store."""
    writer = pid_of_writer(store)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(writer, number)
    await soon(store.commit(noted(1, 1)))
    assert pid_of_writer(store) == writer


async def test_it_gets_nothing_of_the_daemons_environment_and_ends_with_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(process, "spawn", nursery.spawn_real_writer)
    monkeypatch.setenv("AGOR_MASTER_KEY", "canary-in-the-environment")
    store = SqliteStore(path)
    await store.open()
    await soon(store.commit(noted(1, 1)))
    folder = Path(f"/proc/{pid_of_writer(store)}")
    try:
        assert b"canary" not in (folder / "cmdline").read_bytes()
        if os.geteuid() == 0:  # It cannot be dumped, and only root may look at such a process.
            assert b"canary" not in (folder / "environ").read_bytes()
    finally:
        await store.close()
    assert not folder.exists()


# Says when it is ready, and commits something that has to wait for a lock.
STUCK = """
import asyncio, sys
from agor.daemon.store import connect
from tests.store.examples import some_events

async def main() -> None:
    store = connect(sys.argv[1])
    await store.open()
    print("ready", flush=True)
    sys.stdin.readline()
    commit = asyncio.ensure_future(store.commit(some_events(1, 1, 1)))
    while not store._scribe._group:
        await asyncio.sleep(0)
    print("handed over", flush=True)
    await commit

asyncio.run(main())
"""


async def test_the_next_daemon_waits_for_the_writer_of_one_that_was_killed(path: Path):
    url = f"sqlite:///{path}"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", STUCK, url], stdin=pipe, stdout=pipe) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        assert first.stdout.readline() == b"ready\n"
        with locked(path):
            first.stdin.write(b"go\n")
            first.stdin.flush()
            assert first.stdout.readline() == b"handed over\n"
            first.kill()
            first.wait(60)
            # Its writer is still at it, and nobody else can have the database.
            with (path.parent / "agor.db-lock").open() as lock, pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    second = connect(url)
    await soon(second.open())
    stored = await sequences(second, 1)
    # Nobody was told of it: it is there or it is not, and stays so.
    assert stored in ([], [1])
    await second.commit(some_events(2, 1, 1))
    assert await sequences(second, 1) == stored
    await second.close()
