"""What tests of terminals do again and again, through the client."""

from __future__ import annotations

import asyncio
import itertools

from agor.client import AttachedTerminal, Client
from agor.protocol.terminal_api import Terminal
from tests.integration.daemon.client_steps import PATIENCE

_numbers = itertools.count(1000)


async def open_in(client: Client, session_id: str) -> str:
    """Open a plain shell; tells its id."""
    async with asyncio.timeout(PATIENCE):
        return (await client.open_terminal(session_id, shell="/bin/sh")).terminal_id


class Watching:
    """Somebody at a terminal."""

    def __init__(self, attached: AttachedTerminal) -> None:
        self.attached = attached
        self.seen = b""

    async def until(self, text: bytes, begin: int = 0) -> None:
        """Read until something was printed."""
        async with asyncio.timeout(PATIENCE):
            while text not in self.seen[begin:]:
                self.seen += await anext(self.attached)

    async def run(self, command: str) -> str:
        """Have the shell run something, and wait for it; tells what came, with the echo of it."""
        number, before = next(_numbers), len(self.seen)
        # The echo of what is typed does not have the number in this way.
        await self.attached.type(f"{command}; echo end-$(({number} + 1))-\n".encode())
        await self.until(f"end-{number + 1}-".encode(), before)
        return self.seen[before:].decode(errors="replace")

    async def to_its_end(self) -> None:
        """Read until it has ended."""
        async with asyncio.timeout(PATIENCE):
            async for piece in self.attached:
                self.seen += piece


async def until_ended(client: Client, terminal_id: str) -> Terminal:
    """Wait until a terminal has ended; gives it."""
    async with asyncio.timeout(PATIENCE):
        while (found := await client.terminal(terminal_id)).status != "ended":
            await asyncio.sleep(0.01)
    return found
