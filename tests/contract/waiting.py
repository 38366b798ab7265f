"""How tests wait: for the thing itself, and never for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds after which something that should have happened is taken not to happen at all.
PATIENCE = 20.0


async def soon(awaitable: Awaitable[T]) -> T:
    """Wait for a result; a test that would hang fails instead."""
    async with asyncio.timeout(PATIENCE):
        return await awaitable


async def until(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Give the loop turns until something that raises no event has come true."""
    async with asyncio.timeout(patience):
        while not condition():
            await asyncio.sleep(0.001)


async def turns(number: int = 20) -> None:
    """Let everything run that is ready to run. For memory pairs only: sockets need real time."""
    for _ in range(number):
        await asyncio.sleep(0)
