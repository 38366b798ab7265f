"""The forked executor: cut loose from the launcher, limited, then serving its own socket.

Memory is shared with the process it was forked from until one of the two writes to it, and copying
is most of what a start costs. So what can be made before the fork is made there (`Plan`), and what
is left does little before the first answer.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn

import msgspec
import uvloop

from agor.executor.launcher.descriptors import keep_only
from agor.executor.launcher.rehearsal import rehearse
from agor.executor.main import serve_listener
from agor.executor.server import Executor, Options
from agor.protocol.launching import MARK, MAX_PACKET, SpawnParams
from agor.rpc.unix import take_over

_read_task = msgspec.json.Decoder(SpawnParams).decode


class Plan:
    """A task as it came: an executor that needs nothing but a process and an event loop."""

    def __init__(self, packet: bytes, listener: int, groups: list[int]) -> None:
        self._task = task = _read_task(packet)
        self._groups = groups
        options = Options(
            max_line=task.max_line,
            outbox_bytes=task.outbox_bytes,
            orphan_timeout=task.orphan_timeout_ms / 1000,
        )
        self._listener = take_over(listener)
        self._executor = Executor(options)

    @property
    def descriptors(self) -> set[int]:
        """Those that it needs."""
        return {self._listener.fileno(), *self._groups}

    def close(self) -> None:
        """Let go of it: the executor that was forked has it."""
        self._listener.close()
        for group in self._groups:
            os.close(group)

    async def carry_out(self) -> int:
        """Take the limits on, and serve until told to end."""
        self._accept_limits()
        os.environ[MARK] = self._task.executor_id
        return await serve_listener(self._listener, self._executor)

    def _accept_limits(self) -> None:
        for group in self._groups:
            os.write(group, b"0")
            os.close(group)
        for number, limit in self._task.rlimits:
            hard = resource.getrlimit(number)[1]
            value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(number, (value, value))


def run_plan(plan: Plan, errors: int) -> NoReturn:
    """Be the executor of a task that was there before the fork."""
    _run(plan.carry_out(), plan.descriptors, errors)


def run_spare(line: int, errors: int) -> NoReturn:
    """Be an executor that waits for its task on a line."""
    _run(_wait_for_task(line), {line}, errors)


def _run(life: Coroutine[Any, Any, int], descriptors: set[int], errors: int) -> NoReturn:
    code = 1
    try:
        os.setsid()
        # Nobody reads its standard output; what is printed by mistake is at least in the log.
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        keep_only({0, 1, 2, *descriptors})
        # Without the runner of asyncio, which would have to be copied too: the process ends here.
        loop = uvloop.new_event_loop()
        code = loop.run_until_complete(life)
        loop.run_until_complete(_cancel_the_rest())
    except BaseException:  # noqa: BLE001 - a forked child must never return into its parent's code
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


async def _wait_for_task(line: int) -> int:
    await rehearse(1)
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(line, told.set)
    await told.wait()
    loop.remove_reader(line)
    with socket.socket(fileno=line) as sock:
        packet, fds, _, _ = socket.recv_fds(sock, MAX_PACKET, 64)
    if not packet:
        return 0  # A spare that was not needed.
    listener, *groups = fds
    return await Plan(packet, listener, groups).carry_out()


async def _cancel_the_rest() -> None:
    """Let what still runs clean up after itself."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
