"""`pool.acquire` from end to end: folders, limits and the answered `ping` included.

With the daemon's own records it also waits until it is durable whose the executor is; the others
that are compared keep nothing.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import NoReturn

import uvloop

from agor import logs
from agor.daemon.pool.ending import Ending
from agor.daemon.pool.pool import Pool
from agor.daemon.pool.records import ExecutorRecord, Records
from agor.daemon.pool.settings import Claim, PoolSettings
from agor.daemon.services.people.people import People
from agor.daemon.services.records import StoreRecords
from agor.daemon.store.sqlite.store import SqliteStore
from bench.spawn.launched import ANSWER_SECONDS, SETTLE

#: Seconds after which a launcher that was left alone has imported the agents' libraries.
IMPORTED = 6.0


class _Host:
    """The pool's owner: there are no tasks here, so nothing is ever asked of it."""

    def take_events(self, *_: object) -> None:
        return

    def refuse_event(self, *_: object) -> None:
        return

    async def get_api_key(self, *_: object) -> NoReturn:
        raise NotImplementedError

    async def request_permission(self, *_: object) -> NoReturn:
        raise NotImplementedError

    def take_terminal(self, *_: object) -> None:
        return


class _NoRecords:
    """Records that nobody will ever look for."""

    async def save(self, _: ExecutorRecord) -> None:
        return

    async def ended(self, _: Ending) -> None:
        return

    async def load(self) -> list[ExecutorRecord]:
        return []


def acquire_times(count: int, *, spares: int, durable: bool) -> list[float]:
    """Milliseconds of so many claims, each of a session of its own, with these spares at hand."""
    logs.configure("error", "console")
    with tempfile.TemporaryDirectory(prefix="agor-bench-") as directory:
        return uvloop.run(_acquire(Path(directory), count, spares, durable))


async def _acquire(directory: Path, count: int, spares: int, durable: bool) -> list[float]:
    if not durable:
        return await _acquire_with(_NoRecords(), directory, count, spares)
    store = SqliteStore(directory / "agor.db")
    await store.open()
    try:
        return await _acquire_with(StoreRecords(store, People(store)), directory, count, spares)
    finally:
        await store.close()


async def _acquire_with(records: Records, directory: Path, count: int, spares: int) -> list[float]:
    settings = PoolSettings(runtime=directory / "run", max_executors=4, spare_executors=spares)
    pool = Pool(settings, _Host(), records)
    await pool.open()
    try:
        # It starts the launcher: that is not what is measured.
        await _claim(pool, "first")
        await asyncio.sleep(IMPORTED)
        times = []
        for number in range(count):
            async with asyncio.timeout(ANSWER_SECONDS):
                while pool.spares < spares:  # noqa: ASYNC110 - there is no event of it
                    await asyncio.sleep(SETTLE)
            times.append(await _claim(pool, f"session-{number}"))
    finally:
        await pool.close(drain=True)
    return times


async def _claim(pool: Pool, session: str) -> float:
    """Have an executor and end it; the milliseconds until it was there."""
    began = time.perf_counter()
    await pool.acquire(Claim(session_id=session, user_id="user"))
    took = time.perf_counter() - began
    pool.release(session)
    await pool.stop(session, "measured")
    await asyncio.sleep(SETTLE)
    return took * 1000
