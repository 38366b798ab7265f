"""A writer that hangs: nobody waits for it for long, and it is replaced if that can help."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agor.daemon.store.base import Write
from agor.daemon.store.sqlite.frames import Answer, Beat
from agor.daemon.store.sqlite.store import SqliteStore
from agor.daemon.store.sqlite.upkeep import Upkeep
from agor.errors import StoreUnavailable
from tests.contract.waiting import PATIENCE, soon, until
from tests.store.examples import pid_of_writer, sequences, some_events

#: Time goes by three times as fast.
QUICK = Upkeep(beat_seconds=0.3)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that can be frozen: then whoever writes to it cannot even be killed."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    make = ["mkfs.ext4", "-q", str(image)]
    mount = ["mount", "-o", "loop", str(image), str(folder)]
    if os.geteuid() != 0 or any(
        subprocess.run(each, capture_output=True, check=False).returncode for each in (make, mount)
    ):
        pytest.skip("a file system can only be mounted by root, outside of most containers")
    yield folder
    thaw(folder)
    subprocess.run(["umount", str(folder)], check=True, timeout=60)


def freeze(folder: Path) -> None:
    subprocess.run(["fsfreeze", "--freeze", str(folder)], check=True, timeout=60)


def thaw(folder: Path) -> None:
    subprocess.run(["fsfreeze", "--unfreeze", str(folder)], check=False, timeout=60)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "agor.db", upkeep=QUICK)
    await store.open()
    yield store
    await store.close()


async def commit_at_last(store: SqliteStore, write: Write) -> None:
    """Commit again until it is not refused: a busy machine may be slow once more."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await store.commit(write)
            except StoreUnavailable:
                await until(lambda: store.available)


def stop_writer(store: SqliteStore) -> int:
    """Stop the process, as a debugger or an administrator may."""
    pid = pid_of_writer(store)
    os.kill(pid, signal.SIGSTOP)
    return pid


async def test_a_stopped_writer_is_replaced_and_what_it_had_is_refused_for_good(
    store: SqliteStore,
):
    await soon(store.commit(some_events(1, 1, 1)))
    stopped = stop_writer(store)
    with pytest.raises(StoreUnavailable, match="has not answered"):
        await soon(store.commit(some_events(1, 2, 2)))
    await until(lambda: store.available)
    assert pid_of_writer(store) != stopped
    assert await sequences(store, 1) == [1]
    await commit_at_last(store, some_events(1, 2, 2))
    assert await sequences(store, 1) == [1, 2]


async def test_a_stopped_writer_is_noticed_though_nobody_writes(store: SqliteStore):
    stopped = stop_writer(store)
    await until(lambda: store._scribe._process is None)
    await until(lambda: store._scribe._process is not None)
    assert pid_of_writer(store) != stopped
    await commit_at_last(store, some_events(1, 1, 1))


async def test_what_comes_while_the_writer_hangs_is_refused_at_once(store: SqliteStore):
    stop_writer(store)
    first = asyncio.ensure_future(store.commit(some_events(1, 1, 1)))
    await until(lambda: store.stall is not None)
    assert not store.available
    with pytest.raises(StoreUnavailable) as refused:
        await store.commit(some_events(2, 1, 1))
    assert "goes on by itself" in (refused.value.hint or "")
    with pytest.raises(StoreUnavailable):
        await soon(first)


async def test_a_disk_that_stands_still_costs_no_writer_and_nothing_that_was_asked(
    disk: Path, monkeypatch: pytest.MonkeyPatch
):
    """Killing would not help: the next one would wait for the same disk."""
    store = SqliteStore(disk / "agor.db", upkeep=QUICK)
    await store.open()
    await soon(store.commit(some_events(1, 1, 1)))
    writer, beats, take = pid_of_writer(store), 0, store._scribe.take

    def count(answer: Answer) -> None:
        nonlocal beats
        beats += isinstance(answer, Beat)
        take(answer)

    monkeypatch.setattr(store._scribe, "take", count)
    freeze(disk)
    under_way = asyncio.ensure_future(store.commit(some_events(1, 2, 2)))
    await until(lambda: store.stall is not None)
    assert not store.available
    # Longer than a silent one would live.
    await until(lambda: beats > 20)
    with pytest.raises(StoreUnavailable, match="has not answered"):
        await store.commit(some_events(2, 1, 1))
    assert not under_way.done()
    thaw(disk)
    await soon(under_way)
    await until(lambda: store.available)
    assert pid_of_writer(store) == writer
    assert await sequences(store, 1) == [1, 2]
    assert await sequences(store, 2) == []
    await store.close()


async def test_a_writer_that_cannot_be_killed_is_not_waited_for_and_replaced_when_it_ends(
    disk: Path,
):
    store = SqliteStore(disk / "agor.db", upkeep=QUICK)
    await store.open()
    await soon(store.commit(some_events(1, 1, 1)))
    stuck = pid_of_writer(store)
    freeze(disk)
    under_way = asyncio.ensure_future(store.commit(some_events(1, 2, 2)))
    await until(lambda: store.stall is not None)
    os.kill(stuck, signal.SIGKILL)
    with pytest.raises(StoreUnavailable):
        await store.commit(some_events(2, 1, 1))
    assert not under_way.done()
    thaw(disk)
    with pytest.raises(StoreUnavailable):
        await soon(under_way)
    await commit_at_last(store, some_events(1, 2, 2))
    assert pid_of_writer(store) != stuck
    assert await sequences(store, 1) == [1, 2]
    await store.close()


async def test_questions_to_a_disk_that_stands_still_fail_in_time_and_then_at_once(disk: Path):
    """SQLite notes in a file who reads, so readers need a disk that can be written."""
    store = SqliteStore(disk / "agor.db", upkeep=Upkeep(beat_seconds=0.3, read_seconds=1.0))
    await store.open()
    await soon(store.commit(some_events(1, 1, 1)))
    freeze(disk)
    for _ in range(4):
        with pytest.raises(StoreUnavailable, match="did not answer"):
            await soon(sequences(store, 1))
    assert store._readers.stuck
    assert not store.available
    with pytest.raises(StoreUnavailable, match="did not answer"):
        await sequences(store, 1)
    thaw(disk)
    await until(lambda: store.available)
    assert await soon(sequences(store, 1)) == [1]
    await store.close()


async def test_a_question_that_takes_too_long_is_interrupted(tmp_path: Path):
    store = SqliteStore(tmp_path / "agor.db", upkeep=Upkeep(read_seconds=1.0))
    await store.open()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT COUNT(*) FROM n"
    with pytest.raises(StoreUnavailable, match="did not answer"):
        await soon(store.read(endless))
    await until(lambda: not store._readers._overdue)
    assert await soon(store.read("SELECT 1")) == [(1,)]
    await store.close()
