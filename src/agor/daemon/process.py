"""The daemon as a process: its log, its lock, its signals."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal

import structlog
import uvloop

import agor
from agor import linux, logs
from agor.catalogue import AGENTS_FOLDER
from agor.config import Config, load
from agor.daemon.backup.pending import finish_pending, plan_file
from agor.daemon.main import Daemon
from agor.errors import AgorError
from agor.home import Home

log = structlog.get_logger("agor.daemon")

#: Objects made before the collector looks for garbage: most live no longer than one request.
_COLLECT_EVERY = 10_000


def run(config: Config, home: Home, host: str | None = None, port: int | None = None) -> int:
    """Be the daemon of a home until told to end."""
    logs.configure(config.log.level, config.log.format)
    # People's keys go through our memory, and what opens them stays there.
    linux.forbid_dumps()
    # For executors inside of this process; the others are told by who starts them.
    os.environ[AGENTS_FOLDER] = str(home.path(config.execution.agents_folder))
    with home.lock():
        if plan_file(home).exists() and asyncio.run(finish_pending(home)):
            # The settings may be the restored ones.
            config = load(home.folder)
        try:
            uvloop.run(
                _serve(
                    config, home, config.daemon.host if host is None else host,
                    config.daemon.port if port is None else port,
                )
            )  # fmt: skip
        except AgorError as error:
            log.error("daemon_failed", code=error.code, why=error.message)
            raise
    return 0


async def _serve(config: Config, home: Home, host: str, port: int) -> None:
    told, ready = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    serving = asyncio.create_task(_serve_until(told, ready, config, home, host, port))
    leaving = asyncio.create_task(told.wait())
    await asyncio.wait((serving, leaving), return_when=asyncio.FIRST_COMPLETED)
    if not serving.done() and not ready.is_set():
        # It is only starting, and that may take as long as the database does.
        serving.cancel()
    leaving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    log.info("daemon_ended")


async def _serve_until(
    told: asyncio.Event, ready: asyncio.Event, config: Config, home: Home, host: str, port: int
) -> None:
    daemon = Daemon(config, home)
    async with daemon.serving(host, port) as url:
        # What is there now stays: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECT_EVERY)
        with home.described(url, agor.__version__):
            ready.set()
            log.info("daemon_ready", url=url, pid=os.getpid(), home=str(home.folder))
            await told.wait()
        log.info("daemon_stopping", drain=config.daemon.drain_on_stop)
