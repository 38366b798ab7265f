"""Feeds, for tests: writing into them, and reading them over either transport."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection, connect

from agor.daemon.services.line import Entry
from tests.api.raw import RawConnection, spelled
from tests.api.serving import Served
from tests.contract.waiting import soon


async def publish(served: Served, session_id: str, count: int, size: int = 10) -> int:
    """Put events into a session's feed, committed one after the other; tells the last sequence."""
    live = await served.daemon.lives.get(session_id)
    last = 0
    for number in range(count):
        entry = Entry()
        entry.tell("log", None, {"number": number, "text": "x" * size})
        last = await live.channel.line.append(entry)
    return last


def followers(served: Served, transport: str) -> float:
    return served.count("agor_feed_followers", transport=transport)


class Follow(Protocol):
    """A client of a feed, over some transport."""

    async def event(self) -> dict[str, Any]:
        """The next event; raises when there is no next one."""

    def leave(self) -> None:
        """Hang up."""


async def take(follow: Follow, last: int) -> list[dict[str, Any]]:
    """Collect events up to a sequence."""
    events = [await follow.event()]
    while events[-1]["sequence"] < last:
        events.append(await follow.event())
    return events


# ── server-sent events ───────────────────────────────────────────────────────────────────────


class SseEnded(Exception):
    """The stream ended in good order."""


class Sse:
    """A stream of server-sent events, down to the chunks of HTTP."""

    def __init__(self, connection: RawConnection) -> None:
        self._connection = connection
        self._text = b""
        self.comments = 0
        self.ids: list[int] = []
        self.retry: int | None = None

    async def event(self) -> dict[str, Any]:
        while True:
            block = await self._block()
            fields = [line.partition(":") for line in block.decode().split("\n")]
            names = {name: value.removeprefix(" ") for name, _, value in fields}
            if "data" in names:
                assert list(names) == ["id", "data"], block
                self.ids.append(int(names["id"]))
                event: dict[str, Any] = json.loads(names["data"])
                return event
            if "retry" in names:
                self.retry = int(names["retry"])
            else:
                assert names == {"": ""}, block
                self.comments += 1

    async def _block(self) -> bytes:
        while b"\n\n" not in self._text:
            self._text += await self._chunk()
        block, _, self._text = self._text.partition(b"\n\n")
        return block

    async def _chunk(self) -> bytes:
        reader = self._connection.reader
        size = int(await soon(reader.readuntil(b"\r\n")), 16)
        data = await soon(reader.readexactly(size + 2))
        if size == 0:
            raise SseEnded
        return data[:-2]

    def leave(self) -> None:
        self._connection.close()


@contextlib.asynccontextmanager
async def sse(
    served: Served, session_id: str, after: int | None = None, **headers: str
) -> AsyncIterator[Sse]:
    query = "" if after is None else f"?after={after}"
    connection = await RawConnection.open(served.port, limit=2**26)
    async with connection:
        address = f"/sessions/{session_id}/events{query}"
        await connection.send(spelled("GET", address, served.token, **headers))
        answer = await connection.answer(head=True)
        assert answer.status == 200, answer
        yield Sse(connection)


# ── WebSockets ───────────────────────────────────────────────────────────────────────────────


class WebSocket:
    """A WebSocket that follows a feed."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def event(self) -> dict[str, Any]:
        text = await soon(self.connection.recv())
        assert isinstance(text, str)
        event: dict[str, Any] = json.loads(text)
        return event

    def leave(self) -> None:
        self.connection.transport.abort()


@contextlib.asynccontextmanager
async def websocket(
    served: Served, session_id: str, after: int | None = None, **options: Any
) -> AsyncIterator[WebSocket]:
    query = "" if after is None else f"?after={after}"
    url = f"ws://127.0.0.1:{served.port}/sessions/{session_id}/events{query}"
    options = {"proxy": None, "max_size": None, "ping_interval": None, **options}
    headers = {**served.headers, **options.pop("additional_headers", {})}
    async with connect(url, additional_headers=headers, close_timeout=1, **options) as connection:
        yield WebSocket(connection)


def small_socket(served: Served) -> socket.socket:
    """A socket whose end of the connection holds little: its owner has to read."""
    end = socket.socket()
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    end.connect(("127.0.0.1", served.port))
    end.setblocking(False)
    return end


@contextlib.asynccontextmanager
async def stuck_sse(served: Served, session_id: str) -> AsyncIterator[None]:
    """Somebody who asked for a feed and reads nothing of it."""
    end = small_socket(served)
    reader, writer = await asyncio.open_connection(sock=end, limit=2**26)
    connection = RawConnection(reader, writer)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    async with connection:
        await connection.send(spelled("GET", f"/sessions/{session_id}/events", served.token))
        yield
