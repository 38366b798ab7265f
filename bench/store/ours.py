"""The product's store under load. A commit is acknowledged when it is on the disk.

Usage: python -m bench.store.ours WAY SYNC COUNT FOLDER [POSTGRESQL_URL]
"""

import asyncio
import resource
import sys
import time
from pathlib import Path

import uvloop

from agor.daemon.store import connect
from agor.daemon.store.base import EventRun, Store, Write
from agor.daemon.store.sqlite import process
from bench.store.rows import BODY, CHUNK, report

#: A process that writes as the product's own never does.
LIGHTER = (sys.executable, "-P", str(Path(__file__).with_name("lighter.py")))
SELF, CHILDREN = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN

FEEDS = 32
PER_SECOND = 10_000


async def rate(store: Store, count: int) -> dict[str, float]:
    """As fast as it goes: each feed hands in a chunk, and the next when that is durable."""

    async def produce(feed: int) -> None:
        for first in range(1, count // FEEDS, CHUNK):
            await store.commit(Write(events=[EventRun(feed, first, [BODY] * CHUNK)]))

    return await _timed([produce(feed) for feed in range(FEEDS)], count)


async def rate_one_feed(store: Store, count: int) -> dict[str, float]:
    """The same, with all rows one after another in the table."""
    handed_in = 0

    async def produce() -> None:
        nonlocal handed_in
        while handed_in < count:
            first, handed_in = handed_in + 1, handed_in + CHUNK
            await store.commit(Write(events=[EventRun(1, first, [BODY] * CHUNK)]))

    return await _timed([produce() for _ in range(FEEDS)], count)


async def _timed(producers: list, count: int) -> dict[str, float]:  # type: ignore[type-arg]
    start = time.perf_counter()
    await asyncio.gather(*producers)
    return {"rows_per_s": count / (time.perf_counter() - start)}


async def pace(store: Store, count: int) -> dict[str, float]:
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
    return {"p50_ms": p50, "p99_ms": p99, "sync_ms": p99}


WAYS = {way.__name__: way for way in (rate, rate_one_feed, pace)}


async def main(way: str, sync: str, count: int, folder: Path, url: str | None) -> None:
    """Run one way on an empty database."""
    if sync == "NORMAL":
        process._COMMAND = LIGHTER  # type: ignore[assignment]  # noqa: SLF001
    store = connect(url or f"sqlite:///{folder}/agor.db")
    await store.open()
    figures = await WAYS[way](store, count)
    await store.close()
    # The process that writes has ended by now, and is counted too.
    peak = sum(resource.getrusage(who).ru_maxrss for who in (SELF, CHILDREN)) / 1024
    report(**figures, peak_mb=peak)


if __name__ == "__main__":
    uvloop.run(
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]),
             sys.argv[5] if len(sys.argv) > 5 else None)
    )  # fmt: skip
