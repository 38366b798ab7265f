"""How cases wait: for the thing itself, and never for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agor.environments.base import EnvironmentPrimitive

T = TypeVar("T")

#: Seconds after which something is taken not to happen at all; generous, for a busy machine.
PATIENCE = 60.0
_PAUSE = 0.01


async def soon(awaitable: Awaitable[T]) -> T:
    """Wait for a result; a case that would hang fails instead."""
    async with asyncio.timeout(PATIENCE):
        return await awaitable


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that nobody tells us of."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(_PAUSE)


async def do(environment: EnvironmentPrimitive, *command: str) -> None:
    """Run a command that only prepares something; it must succeed."""
    done = await soon(environment.run(command))
    assert done.exit_code == 0, f"{command} ended with {done.exit_code}: {done.stderr!r}"


async def until_gone(environment: EnvironmentPrimitive, pid: str) -> None:
    """Wait until a process inside the environment is dead, whether or not it is reaped."""
    async with asyncio.timeout(PATIENCE):
        while await is_alive(environment, pid):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(_PAUSE)


async def is_alive(environment: EnvironmentPrimitive, pid: str) -> bool:
    """Tell whether a process inside the environment lives."""
    assert pid.isdigit(), f"{pid!r} is no process id"
    seen = await environment.run(["cat", f"/proc/{pid}/stat"], cwd="/")
    # The state follows the name, which is in brackets and may itself have brackets in it.
    state = seen.stdout.rpartition(b")")[2].split()
    return bool(state) and state[0] not in (b"Z", b"X")
