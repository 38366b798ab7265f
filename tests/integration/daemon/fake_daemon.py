"""Something that looks like a daemon to a client, and answers what a test wants it to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from agor.client import Client

TOKEN = "agor_a-token-that-nobody-else-may-see"


class Answers:
    """An HTTP server that gives prepared answers, one after the other, and keeps what was asked."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.asked.append(head)
            for line in head.splitlines():
                name, _, value = line.partition(":")
                if name.lower() == "content-length":
                    await reader.readexactly(int(value))
            writer.write(self._answers.pop(0))
            await writer.drain()
        writer.close()

    def header(self, name: str) -> list[str | None]:
        """Give a header of every request."""
        found = []
        for head in self.asked:
            lines = (line.partition(": ") for line in head.splitlines())
            found.append(next((value for key, _, value in lines if key.lower() == name), None))
        return found


def answer(status: int, body: Any = None, **headers: str) -> bytes:
    """Spell an answer."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", "connection: close", f"content-length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def problem(status: int, code: str, **headers: str) -> bytes:
    """Spell an answer that tells a problem."""
    body = {
        "type": f"urn:agor:error:{code}", "title": "T", "status": status, "detail": "the detail",
        "code": code, "hint": "the hint",
    }  # fmt: skip
    return answer(status, body, **headers)


@contextlib.asynccontextmanager
async def answering(*answers: bytes, **options: Any) -> AsyncIterator[tuple[Answers, Client]]:
    """Serve answers, and have a client of that. An empty one is a connection that is cut."""
    fake = Answers(answers)
    server = await asyncio.start_server(fake.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with Client(f"http://127.0.0.1:{port}", TOKEN, **options) as client:
            yield fake, client
    finally:
        server.close()
        await server.wait_closed()


#: What one connection to a feed gets: sequences of events, and at last the code it is closed with;
#: or status, code and Retry-After of the answer with which its handshake is refused.
Script = list[int] | tuple[int, str, str]


class Feeds:
    """A WebSocket server that plays a script for each connection, and keeps their cursors."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        self._scripts = list(scripts)
        self.cursors: list[int] = []

    def refuse(self, _: ServerConnection, request: Request) -> Response | None:
        self.cursors.append(int(request.path.partition("after=")[2]))
        script = self._scripts[0]
        if isinstance(script, list):
            return None
        self._scripts.pop(0)
        status, code, retry_after = script
        body = problem(status, code).partition(b"\r\n\r\n")[2]
        return Response(status, "X", Headers({"Retry-After": retry_after}), body)

    async def play(self, connection: ServerConnection) -> None:
        script = self._scripts.pop(0)
        assert isinstance(script, list)
        *sequences, code = script
        for sequence in sequences:
            event = {
                "sequence": sequence, "type": "log", "task_id": None, "data": {}, "created_at": 0,
            }  # fmt: skip
            await connection.send(json.dumps(event))
        if code:
            await connection.close(code, "as the test wants it")
        else:
            connection.transport.abort()


@contextlib.asynccontextmanager
async def feeding(*scripts: Script) -> AsyncIterator[tuple[Feeds, Client]]:
    """Serve feeds, and have a client of that. A close code of 0 is a connection that is cut."""
    fake = Feeds(scripts)
    async with serve(fake.play, "127.0.0.1", 0, process_request=fake.refuse) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with Client(f"http://127.0.0.1:{port}", TOKEN) as client:
            yield fake, client
