"""An answer, from a status and bytes to the messages of ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

JSON = "application/json"
PROBLEM = "application/problem+json"

HeaderList = list[tuple[bytes, bytes]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Scope = dict[str, Any]

#: Nothing here may be kept by a cache, nor taken for another kind of file than it is.
_ALWAYS: HeaderList = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]

encode = msgspec.json.Encoder().encode


class Answer(NamedTuple):
    """What is sent back. `headers` are those beside its type and length."""

    status: int
    body: bytes = b""
    media: str = JSON
    headers: Sequence[tuple[bytes, bytes]] = ()

    @property
    def all_headers(self) -> HeaderList:
        """Every header of it. One without content has neither type nor length."""
        if self.status == 204:
            return [*_ALWAYS, *self.headers]
        return [
            (b"content-type", self.media.encode()),
            (b"content-length", b"%d" % len(self.body)),
            *_ALWAYS,
            *self.headers,
        ]


async def send_answer(answer: Answer, send: Send, *, head: bool = False) -> None:
    """Send it; to a HEAD, all but the body."""
    start = {
        "type": "http.response.start",
        "status": answer.status,
        "headers": answer.all_headers,
    }
    await send(start)
    await send({"type": "http.response.body", "body": b"" if head else answer.body})


def raw_answer(answer: Answer, more_headers: HeaderList) -> bytes:
    """Spell an answer that is given outside of any request; it is the last on its connection."""
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}".encode()]
    headers = [(b"connection", b"close"), *more_headers, *answer.all_headers]
    lines += (b"%b: %b" % header for header in headers)
    return b"\r\n".join((*lines, b"", answer.body))


async def refuse_handshake(answer: Answer, send: Send) -> None:
    """Answer a WebSocket's handshake like any other request, instead of accepting it."""
    await send(
        {
            "type": "websocket.http.response.start",
            "status": answer.status,
            "headers": answer.all_headers,
        }
    )
    await send({"type": "websocket.http.response.body", "body": answer.body})
