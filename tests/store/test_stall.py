"""A writer that hangs: nobody waits for it for long, and it is replaced if that can help."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from agor.daemon.store.sqlite import process, readers, scribe
from agor.daemon.store.sqlite.frames import Answer, Beat
from agor.daemon.store.sqlite.store import SqliteStore
from agor.daemon.store.sqlite.upkeep import Upkeep
from agor.errors import StoreUnavailable
from tests.contract.waiting import PATIENCE, soon, until
from tests.store.examples import pid_of_writer, sequences, some_events
from tests.store.test_scribe import fail, locked
from tests.store.ticking import SILENCE, STALL, Ticks

T = TypeVar("T")

#: Ticks come three times as fast.
QUICK = Upkeep(beat_seconds=0.3)
#: No tick and no sign of life comes by itself.
UNHURRIED = Upkeep(beat_seconds=3600.0, busy_seconds=60.0)


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
    # A test that failed may have left a store open on it.
    subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=60)


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


async def at_last(ask: Callable[[], Awaitable[T]]) -> T:
    """Commit or ask again until that is not refused: a busy machine may be slow at any time."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                await asyncio.sleep(0.01)


async def put_event(store: SqliteStore, sequence: int) -> None:
    """Store an event of the first session."""
    await at_last(lambda: store.commit(some_events(1, sequence, sequence)))


async def stored(store: SqliteStore) -> list[int]:
    """List the events of the first session."""
    return await at_last(lambda: sequences(store, 1))


async def stop_writer(store: SqliteStore) -> int:
    """Stop the process, as a debugger or an administrator may."""
    # It has just answered, so it is not about to be replaced.
    await put_event(store, 1)
    pid = pid_of_writer(store)
    os.kill(pid, signal.SIGSTOP)
    return pid


async def until_replaced(store: SqliteStore, pid: int) -> None:
    """Wait until another process writes."""
    await until(lambda: store._scribe._process is not None and pid_of_writer(store) != pid)


async def test_a_stopped_writer_is_replaced_and_what_it_had_is_refused_for_good(
    store: SqliteStore,
):
    stopped = await stop_writer(store)
    with pytest.raises(StoreUnavailable, match="has not answered"):
        await soon(store.commit(some_events(1, 2, 2)))
    await until_replaced(store, stopped)
    await until(lambda: store.available)
    assert await stored(store) == [1]
    await put_event(store, 2)
    assert await stored(store) == [1, 2]


async def test_a_stopped_writer_is_noticed_though_nobody_writes(store: SqliteStore):
    stopped = await stop_writer(store)
    await until_replaced(store, stopped)
    await put_event(store, 2)


async def test_what_comes_while_the_writer_hangs_is_refused_at_once(store: SqliteStore):
    ticks = Ticks(store)
    await stop_writer(store)
    first = asyncio.ensure_future(store.commit(some_events(1, 2, 2)))
    await until(lambda: store._scribe._group)
    ticks.pass_by(STALL)
    assert store.stall is not None
    assert not store.available
    with pytest.raises(StoreUnavailable) as refused:
        await store.commit(some_events(2, 1, 1))
    assert "goes on by itself" in (refused.value.hint or "")
    assert not first.done()
    ticks.pass_by(SILENCE)
    with pytest.raises(StoreUnavailable):
        await soon(first)


async def hang_without_a_writer(
    store: SqliteStore, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> asyncio.Future[None]:
    """Have a writer die over a commit, and none be started for longer than one may be stuck."""
    commit = asyncio.ensure_future(store.commit(some_events(1, 1, 1)))
    await until(lambda: store._scribe._group)
    with monkeypatch.context() as patch:
        patch.setattr(process, "spawn", fail)
        os.kill(pid_of_writer(store), signal.SIGKILL)
        await until(lambda: store._scribe._process is None)
        ticks.pass_by(scribe._STUCK_TICKS + 1)
    await until(lambda: store._scribe._process is not None)
    return commit


async def test_a_writer_is_not_held_to_account_for_the_outage_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = SqliteStore(tmp_path / "agor.db", upkeep=UNHURRIED)
    await store.open()
    ticks = Ticks(store)
    with locked(tmp_path / "agor.db"):
        commit = await hang_without_a_writer(store, ticks, monkeypatch)
        writer = pid_of_writer(store)
        # Its first commit takes longer than some ticks.
        ticks.pass_by(3)
    with pytest.raises(StoreUnavailable):
        await soon(commit)
    assert pid_of_writer(store) == writer
    assert store.available
    await put_event(store, 1)
    assert pid_of_writer(store) == writer
    await store.close()


async def test_a_writer_that_is_stuck_for_good_is_replaced_though_it_gives_signs_of_life(
    tmp_path: Path,
):
    store = SqliteStore(tmp_path / "agor.db", upkeep=UNHURRIED)
    await store.open()
    ticks = Ticks(store)
    stuck = pid_of_writer(store)
    with locked(tmp_path / "agor.db"):
        commit = asyncio.ensure_future(store.commit(some_events(1, 1, 1)))
        await until(lambda: store._scribe._group)
        for _ in range(scribe._STUCK_TICKS):
            store._scribe.take(Beat())
            ticks.pass_by(1)
        assert pid_of_writer(store) == stuck
        ticks.pass_by(2)
        await until_replaced(store, stuck)
    with pytest.raises(StoreUnavailable):
        await soon(commit)
    await put_event(store, 1)
    await store.close()


async def test_a_disk_that_stands_still_costs_no_writer_and_nothing_that_was_asked(
    disk: Path, monkeypatch: pytest.MonkeyPatch
):
    """Killing would not help: the next one would wait for the same disk."""
    store = SqliteStore(disk / "agor.db", upkeep=Upkeep(beat_seconds=0.05))
    await store.open()
    ticks = Ticks(store)
    await put_event(store, 1)
    writer, beats, take = pid_of_writer(store), 0, store._scribe.take

    def tick_with(answer: Answer) -> None:
        nonlocal beats
        take(answer)
        if isinstance(answer, Beat):
            beats += 1
            ticks.pass_by(1)

    monkeypatch.setattr(store._scribe, "take", tick_with)
    freeze(disk)
    under_way = asyncio.ensure_future(store.commit(some_events(1, 2, 2)))
    await until(lambda: store.stall is not None)
    assert not store.available
    # Longer than a silent one would live.
    await until(lambda: beats > 2 * SILENCE)
    with pytest.raises(StoreUnavailable, match="has not answered"):
        await store.commit(some_events(2, 1, 1))
    assert not under_way.done()
    thaw(disk)
    await soon(under_way)
    await until(lambda: store.available)
    assert pid_of_writer(store) == writer
    assert await stored(store) == [1, 2]
    assert await at_last(lambda: sequences(store, 2)) == []
    await store.close()


async def test_a_writer_that_cannot_be_killed_is_not_waited_for_and_replaced_when_it_ends(
    disk: Path,
):
    store = SqliteStore(disk / "agor.db", upkeep=QUICK)
    await store.open()
    ticks = Ticks(store)
    await put_event(store, 1)
    stuck = pid_of_writer(store)
    freeze(disk)
    under_way = asyncio.ensure_future(store.commit(some_events(1, 2, 2)))
    await until(lambda: store._scribe._group)
    ticks.pass_by(STALL)
    os.kill(stuck, signal.SIGKILL)
    with pytest.raises(StoreUnavailable):
        await store.commit(some_events(2, 1, 1))
    assert not under_way.done()
    thaw(disk)
    with pytest.raises(StoreUnavailable):
        await soon(under_way)
    await put_event(store, 2)
    assert pid_of_writer(store) != stuck
    assert await stored(store) == [1, 2]
    await store.close()


async def test_questions_to_a_disk_that_stands_still_fail_in_time_and_then_at_once(disk: Path):
    """SQLite notes in a file who reads, so readers need a disk that can be written."""
    store = SqliteStore(disk / "agor.db", upkeep=Upkeep(read_seconds=1.0))
    await store.open()
    await put_event(store, 1)
    freeze(disk)
    for _ in range(4):
        with pytest.raises(StoreUnavailable, match="did not answer"):
            await soon(sequences(store, 1))
        assert not store.available
    assert store._readers.stuck
    with pytest.raises(StoreUnavailable, match="did not answer"):
        await sequences(store, 1)
    thaw(disk)
    await until(lambda: store.available)
    assert await stored(store) == [1]
    await store.close()


async def test_a_question_that_cannot_be_interrupted_is_noticed_though_others_could_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    go_on = threading.Event()
    monkeypatch.setattr(readers, "read_events", lambda *_: [] if go_on.wait(60) else None)
    store = SqliteStore(tmp_path / "agor.db", upkeep=Upkeep(read_seconds=1.0))
    await store.open()
    with pytest.raises(StoreUnavailable, match="did not answer"):
        await soon(store.events(1, 0, 10, 10**6))
    assert not store.available
    go_on.set()
    await until(lambda: store.available)
    await store.close()


async def test_a_question_that_takes_too_long_is_interrupted(tmp_path: Path):
    store = SqliteStore(tmp_path / "agor.db", upkeep=Upkeep(read_seconds=1.0))
    await store.open()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT COUNT(*) FROM n"
    with pytest.raises(StoreUnavailable, match="did not answer"):
        await soon(store.read(endless))
    await until(lambda: store.available)
    assert await at_last(lambda: store.read("SELECT 1")) == [(1,)]
    await store.close()
