"""What one client types, on its way to a terminal: in order, and bounded.

A program that does not read takes no keys. They wait here as long as there is room, so that the
client's other words, as the new size of its window, are heard meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agor.protocol.terminals import MAX_INPUT

#: Bytes typed that may wait. Then the client waits, too.
_MOST_WAITING = 4 * MAX_INPUT


class Keyboard:
    """One client's keys. `run` has to be going for them to arrive."""

    def __init__(self, press: Callable[[bytes], Awaitable[None]]) -> None:
        self._press = press
        self._waiting = bytearray()
        self._typed = asyncio.Event()
        self._room = asyncio.Event()

    async def type(self, keys: bytes) -> None:
        """Add keys, of at most `MAX_INPUT` bytes, once there is room for them."""
        while len(self._waiting) + len(keys) > _MOST_WAITING:
            self._room.clear()
            await self._room.wait()
        self._waiting += keys
        self._typed.set()

    async def run(self) -> None:
        """Press what is typed, for ever; raises what pressing raises."""
        while True:
            while not self._waiting:
                self._typed.clear()
                await self._typed.wait()
            keys = bytes(self._waiting[:MAX_INPUT])
            del self._waiting[: len(keys)]
            self._room.set()
            await self._press(keys)
