"""The product's store under load. A commit is acknowledged when it is on the disk.

Usage: python -m bench.store.ours WAY SYNC COUNT FOLDER [POSTGRESQL_URL]
"""

import asyncio
import resource
import sqlite3
import sys
import time
from pathlib import Path

import uvloop

from agor.daemon.store import connect
from agor.daemon.store.base import EventRun, Store, Write
from agor.daemon.store.sqlite.file import DatabaseFile
from bench.store.rows import BODY, CHUNK, report

FEEDS = 32
PER_SECOND = 10_000


async def rate(store: Store, count: int) -> None:
    """As fast as it goes: each feed hands in a chunk, and the next when that is durable."""

    async def produce(feed: int) -> None:
        for first in range(1, count // FEEDS, CHUNK):
            await store.commit(Write(events=[EventRun(feed, first, [BODY] * CHUNK)]))

    await _timed([produce(feed) for feed in range(FEEDS)], count)


async def rate_one_feed(store: Store, count: int) -> None:
    """The same, with all rows one after another in the table."""
    handed_in = 0

    async def produce() -> None:
        nonlocal handed_in
        while handed_in < count:
            first, handed_in = handed_in + 1, handed_in + CHUNK
            await store.commit(Write(events=[EventRun(1, first, [BODY] * CHUNK)]))

    await _timed([produce() for _ in range(FEEDS)], count)


async def _timed(producers: list, count: int) -> None:  # type: ignore[type-arg]
    start = time.perf_counter()
    await asyncio.gather(*producers)
    taken = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report(rows_per_s=count / taken, peak_mb=peak)


async def pace(store: Store, count: int) -> None:
    """At a steady pace: how long until an event is durable. Each is a commit of its own."""
    taken: list[float] = []
    sequence = 0

    async def commit(feed: int, number: int) -> None:
        start = time.perf_counter()
        await store.commit(Write(events=[EventRun(feed, number, [BODY])]))
        taken.append(time.perf_counter() - start)

    begin = time.perf_counter()
    # Whoever waits for the answers would measure itself: events come when they come.
    async with asyncio.TaskGroup() as group:
        while sequence < count:
            due = min(count, int((time.perf_counter() - begin) * PER_SECOND))
            for number in range(sequence, due):
                group.create_task(commit(number % FEEDS, number))
            sequence = due
            await asyncio.sleep(0.001)
    taken.sort()
    p50, p99 = (taken[int(len(taken) * part)] * 1000 for part in (0.5, 0.99))
    report(p50_ms=p50, p99_ms=p99, sync_ms=p99)


class Lighter(DatabaseFile):
    """As the product never does it: safe against kill -9, but not against a power cut."""

    def connect(self) -> sqlite3.Connection:
        """Open a connection that does not sync each commit."""
        connection = super().connect()
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection


WAYS = {way.__name__: way for way in (rate, rate_one_feed, pace)}


async def main(way: str, sync: str, count: int, folder: Path, url: str | None) -> None:
    """Run one way on an empty database."""
    store = connect(url or f"sqlite:///{folder}/agor.db")
    if sync == "NORMAL":
        store._file = Lighter(folder / "agor.db")  # type: ignore[attr-defined]  # noqa: SLF001
    await store.open()
    await WAYS[way](store, count)
    await store.close()


if __name__ == "__main__":
    uvloop.run(
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]),
             sys.argv[5] if len(sys.argv) > 5 else None)
    )  # fmt: skip
