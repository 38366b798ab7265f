"""The forked executor: cut loose from the launcher, then serving its own socket."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn

import uvloop

from agor.executor.launcher.descriptors import keep_only
from agor.executor.launcher.plan import Plan


def run_plan(plan: Plan, errors: int) -> NoReturn:
    """Be the executor of a task that was there before the fork."""
    code = 1
    try:
        os.setsid()
        # Nobody reads its standard output; what is printed by mistake is at least in the log.
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        keep_only({0, 1, 2, *plan.descriptors})
        code = _run_in_loop(plan.carry_out())
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
