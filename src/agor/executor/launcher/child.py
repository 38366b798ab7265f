"""The forked executor: cut loose from the launcher, then serving its own socket."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn

import uvloop

from agor.executor.launcher.descriptors import keep_only
from agor.executor.launcher.plan import Plan, make_executor
from agor.executor.launcher.rehearsal import rehearse
from agor.protocol.launching import MAX_PACKET

#: Seconds in which all that a rehearsal put off has come.
_SETTLED = 0.01


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
        code = _run_in_loop(life)
    except BaseException:  # noqa: BLE001 - a forked child must never return into its parent's code
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _run_in_loop(life: Coroutine[Any, Any, int]) -> int:
    """Run it as `asyncio.run` would, with less to copy before it begins."""
    loop = uvloop.new_event_loop()
    task = loop.create_task(life)
    task.add_done_callback(lambda _: loop.stop())
    loop.run_forever()
    loop.run_until_complete(_cancel_the_rest())
    return task.result()


async def _cancel_the_rest() -> None:
    """Let what still runs clean up after itself."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


async def _wait_for_task(line: int) -> int:
    await rehearse(1)
    ahead = make_executor()
    # What the rehearsal left for later is done before somebody waits; then there is nothing else to
    # do, and a plain wait is over sooner than one of the event loop.
    await asyncio.sleep(_SETTLED)
    with socket.socket(fileno=line) as sock:
        packet, fds, _, _ = socket.recv_fds(sock, MAX_PACKET, 64)
    if not packet:
        return 0  # A spare that was not needed.
    listener, *groups = fds
    plan = Plan(packet, listener, groups, ahead)
    plan.put_mark()
    return await plan.carry_out()
