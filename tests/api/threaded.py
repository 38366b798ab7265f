"""A daemon with its interface in a thread of its own, for clients that block."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import uvloop

from agor.daemon.api.settings import ApiSettings
from tests.api.serving import Served, serving
from tests.contract.waiting import PATIENCE


@contextlib.contextmanager
def served_in_a_thread(folder: Path, settings: ApiSettings | None = None) -> Iterator[Served]:
    started = threading.Event()
    made: list[tuple[Served, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        async with serving(folder, settings=settings) as served:
            enough = asyncio.Event()
            made.append((served, asyncio.get_running_loop(), enough))
            started.set()
            await enough.wait()

    thread = threading.Thread(target=lambda: uvloop.run(serve()))
    thread.start()
    assert started.wait(PATIENCE)
    served, loop, enough = made[0]
    try:
        yield served
    finally:
        loop.call_soon_threadsafe(enough.set)
        thread.join(PATIENCE)
        assert not thread.is_alive()
