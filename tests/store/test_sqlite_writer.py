"""The process that writes to SQLite: groups, bounds, and what it does to the rest of the daemon."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from agor.daemon.store.line import Bounds
from agor.daemon.store.sqlite.frames import Answer
from agor.daemon.store.sqlite.store import SqliteStore
from tests.contract.waiting import soon, until
from tests.store.examples import some_events


async def test_what_waits_together_is_committed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = SqliteStore(tmp_path / "agor.db")
    await store.open()
    answers: list[Answer] = []
    take = store._scribe.take

    def note(answer: Answer) -> None:
        answers.append(answer)
        take(answer)

    monkeypatch.setattr(store._scribe, "take", note)
    writes = [some_events(number, 1, 1) for number in range(1, 1001)]
    await soon(asyncio.gather(*map(store.commit, writes)))
    assert 0 < len(answers) < 20
    assert await store.read("SELECT COUNT(*) FROM events") == [(1000,)]
    await store.close()


async def test_producers_that_are_faster_than_the_disk_wait_and_do_not_fill_the_memory(
    tmp_path: Path,
):
    """The disk stands still: another program has the lock."""
    bounds = Bounds(line_writes=50, line_bytes=1_000_000, group_bytes=200_000)
    store = SqliteStore(tmp_path / "agor.db", bounds)
    await store.open()
    other = sqlite3.connect(tmp_path / "agor.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    producers = [
        asyncio.ensure_future(store.commit(some_events(number, 1, 10, b"x" * 10_000)))
        for number in range(1, 101)
    ]
    most = 1_000_000 + 10 * 10_064
    await until(lambda: store._line.held_bytes > 1_000_000)
    assert store._line.held_bytes <= most
    assert not any(producer.done() for producer in producers)
    other.execute("ROLLBACK")
    other.close()
    while not all(producer.done() for producer in producers):
        assert store._line.held_bytes <= most
        await asyncio.sleep(0)
    await soon(asyncio.gather(*producers))
    assert store._line.held_bytes == store._line.held_writes == 0
    assert await store.read("SELECT COUNT(*) FROM events") == [(1000,)]
    await store.close()


async def test_a_busy_event_loop_does_not_starve_the_writer(tmp_path: Path):
    """The loop never rests, as under full load; commits and questions are answered all the same."""
    store = SqliteStore(tmp_path / "agor.db")
    await store.open()
    busy = True

    async def never_rest() -> None:
        while busy:
            sum(range(20_000))
            await asyncio.sleep(0)

    resting = asyncio.create_task(never_rest())
    for number in range(20):
        await soon(store.commit(some_events(1, number * 500 + 1, number * 500 + 500)))
    assert len(await soon(store.events(1, 0, 10_000, 10**9))) == 10_000
    busy = False
    await soon(resting)
    await store.close()


async def test_the_process_is_left_as_it_was(tmp_path: Path):
    before = sys.getswitchinterval(), threads_of_ours()
    store = SqliteStore(tmp_path / "agor.db")
    await store.open()
    await store.commit(some_events(1, 1, 1))
    await store.read("SELECT 1")
    assert sys.getswitchinterval() == pytest.approx(0.0005)
    await store.close()
    assert (sys.getswitchinterval(), threads_of_ours()) == before


def threads_of_ours() -> list[str]:
    names = (thread.name for thread in threading.enumerate())
    return sorted(name for name in names if name.startswith("agor-"))
