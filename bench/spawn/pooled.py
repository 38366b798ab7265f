"""`pool.acquire` from end to end: records, folders, limits and the greeting included."""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import NoReturn

import uvloop

from agor import logs
from agor.daemon.pool.pool import Pool
from agor.daemon.pool.records import FileRecords
from agor.daemon.pool.settings import Claim, PoolSettings
from bench.spawn.launched import SETTLE


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


def acquire_times(count: int) -> list[float]:
    """Milliseconds of so many claims, each of a session of its own, with a spare at hand."""
    logs.configure("error", "console")
    with tempfile.TemporaryDirectory(prefix="agor-bench-") as directory:
        return uvloop.run(_acquire(Path(directory), count))


async def _acquire(directory: Path, count: int) -> list[float]:
    settings = PoolSettings(runtime=directory / "run", max_executors=4)
    pool = Pool(settings, _Host(), FileRecords(directory / "records"))
    await pool.open()
    times = []
    try:
        # The first claim starts the launcher: that is not what is measured.
        for number in range(count + 1):
            session = f"session-{number}"
            began = time.perf_counter()
            await pool.acquire(Claim(session_id=session, user_id="user"))
            times.append((time.perf_counter() - began) * 1000)
            pool.release(session)
            await pool.stop(session, "measured")
            await asyncio.sleep(SETTLE)
    finally:
        await pool.close(drain=True)
    return times[1:]
