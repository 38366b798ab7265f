"""The forked executor: cut loose from the launcher, limited, then serving its own socket."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import signal
import socket
import sys
from typing import NoReturn

import msgspec
import uvloop

from agor.executor.launcher.descriptors import keep_only
from agor.executor.launcher.rehearsal import rehearse
from agor.executor.main import serve_inherited
from agor.executor.server import Options
from agor.protocol.launching import MARK, MAX_PACKET, SpawnParams

#: Changed by the launcher or the keeper; an executor has its own.
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run_executor(line: socket.socket, errors: int) -> NoReturn:
    """Wait for the task, take the limits on, and serve until told to end."""
    code = 1
    try:
        _cut_loose(line, errors)
        # The event loop is made before there is a task: a spare has that behind it.
        code = uvloop.run(_work(line))
    except BaseException:  # noqa: BLE001 - a forked child must never return into its parent's code
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


async def _work(line: socket.socket) -> int:
    if not select.select([line], [], [], 0)[0]:
        # A spare, with time to spend.
        await rehearse(1)
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(line.fileno(), told.set)
    await told.wait()
    loop.remove_reader(line.fileno())
    packet, fds, _, _ = socket.recv_fds(line, MAX_PACKET, 64)
    line.close()
    if not packet:
        return 0  # A spare that was not needed.
    listener, *groups = fds
    task = msgspec.json.decode(packet, type=SpawnParams)
    _accept_limits(task, groups)
    os.environ[MARK] = task.executor_id
    return await serve_inherited(listener, _options(task))


def _cut_loose(line: socket.socket, errors: int) -> None:
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    # Nobody reads its standard output; what is printed by mistake is at least in the log.
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    keep_only({0, 1, 2, line.fileno()})


def _accept_limits(task: SpawnParams, groups: list[int]) -> None:
    for group in groups:
        os.write(group, b"0")
        os.close(group)
    for number, limit in task.rlimits:
        hard = resource.getrlimit(number)[1]
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(number, (value, value))


def _options(task: SpawnParams) -> Options:
    return Options(
        max_line=task.max_line,
        outbox_bytes=task.outbox_bytes,
        orphan_timeout=task.orphan_timeout_ms / 1000,
    )
