"""Terminals, for tests: opened through the interface, and looked at over raw WebSockets."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Close

from tests.api.serving import Served
from tests.contract.waiting import PATIENCE, soon

#: A shell that reads no settings of whoever runs the tests, as their own would.
PLAIN = {"shell": "/bin/sh"}
_numbers = itertools.count(1000)


async def open_terminal(served: Served, session_id: str, **members: Any) -> str:
    """Open a plain shell; tells its id."""
    answer = await served.ask.post(f"/sessions/{session_id}/terminals", json={**PLAIN, **members})
    assert answer.status_code == 201, answer.text
    terminal_id: str = answer.json()["terminal_id"]
    return terminal_id


async def row(served: Served, terminal_id: str) -> dict[str, Any]:
    """A terminal, as the interface shows it."""
    found: dict[str, Any] = (await served.ask.get(f"/terminals/{terminal_id}")).json()
    return found


class Screen:
    """A client of a terminal: collects what it prints."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        #: What came, and at which byte of the output that begins.
        self.seen = bytearray()
        self.begin = 0
        self.told: list[dict[str, Any]] = []

    @property
    def end(self) -> int:
        return self.begin + len(self.seen)

    async def frame(self) -> None:
        """Take one frame."""
        message = await soon(self.connection.recv())
        if isinstance(message, bytes):
            self.seen += message
            return
        told = json.loads(message)
        self.told.append(told)
        if told["type"] == "attached":
            assert not self.seen, "something was lost"
            self.begin = told["offset"]

    async def until(self, text: bytes | bytearray) -> None:
        """Read until something was printed."""
        while text not in self.seen:
            await self.frame()

    async def to_its_end(self) -> Close | None:
        """Read all there is; tells how the connection was closed."""
        try:
            while True:
                await self.frame()
        except ConnectionClosed as closed:
            return closed.rcvd

    async def type(self, text: str) -> None:
        await self.connection.send(text.encode())

    async def run(self, command: str) -> str:
        """Have the shell run something, and wait for it; tells what came, with the echo of it."""
        number = next(_numbers)
        before = len(self.seen)
        # The echo of what is typed does not have the number in this way.
        await self.type(f"{command}; echo end-$(({number} + 1))-\n")
        mark = f"end-{number + 1}-".encode()
        while mark not in self.seen[before:]:
            await self.frame()
        return self.seen[before:].decode(errors="replace")


@contextlib.asynccontextmanager
async def attached(
    served: Served, terminal_id: str, after: int | None = None, **options: Any
) -> AsyncIterator[Screen]:
    """Somebody who looks at a terminal."""
    query = "" if after is None else f"?after={after}"
    url = f"ws://127.0.0.1:{served.port}/terminals/{terminal_id}{query}"
    options = {"proxy": None, "max_size": None, "ping_interval": None, **options}
    headers = options.pop("headers", served.headers)
    async with connect(
        url, additional_headers=headers, close_timeout=1, compression=None, **options
    ) as connection:
        screen = Screen(connection)
        await screen.frame()
        assert screen.told[0]["type"] == "attached"
        yield screen


async def refused(served: Served, terminal_id: str, query: str = "", **headers: str) -> int:
    """Attach in vain; tells the status."""
    url = f"ws://127.0.0.1:{served.port}/terminals/{terminal_id}{query}"
    try:
        async with connect(url, additional_headers=headers or served.headers, proxy=None):
            return 101
    except InvalidStatus as refusal:
        return refusal.response.status_code


async def until_ended(served: Served, terminal_id: str) -> dict[str, Any]:
    """Wait until a terminal has ended; gives it."""
    async with asyncio.timeout(PATIENCE):
        while (found := await row(served, terminal_id))["status"] != "ended":
            await asyncio.sleep(0.005)
    return found
