"""An answer, from a status and bytes to the messages of ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

import msgspec

JSON = "application/json"
PROBLEM = "application/problem+json"

HeaderList = list[tuple[bytes, bytes]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Scope = dict[str, Any]

#: Nothing here may be kept by a cache, nor taken for another kind of file than it is.
_ALWAYS: HeaderList = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode() for status in HTTPStatus
}

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


class Exchange(Protocol):
    """A request and its answer as wholes, where ASGI has them in pieces."""

    def take_body(self) -> bytes | None:
        """Take the body, if all of it is here; else it has to be waited for."""

    def answer(self, answer: Answer, *, head: bool) -> bool:
        """Answer in one write; False if that cannot be now. `head` leaves out the body."""


_EXCHANGE = "agor.exchange"


def offer_exchange(scope: Scope, exchange: Exchange) -> None:
    """Have `taken_body` and `send_answer` use this."""
    scope[_EXCHANGE] = exchange


def taken_body(scope: Scope) -> bytes | None:
    """Take the body of a request, if all of it is here already."""
    exchange: Exchange | None = scope.get(_EXCHANGE)
    return None if exchange is None else exchange.take_body()


async def send_answer(answer: Answer, scope: Scope, send: Send) -> None:
    """Send it; to a HEAD, all but the body."""
    head = scope["method"] == "HEAD"
    # Taken out: it leads back to the scope, and only the collector would end such a circle.
    exchange: Exchange | None = scope.pop(_EXCHANGE, None)
    if exchange is not None and exchange.answer(answer, head=head):
        return
    start = {
        "type": "http.response.start",
        "status": answer.status,
        "headers": answer.all_headers,
    }
    await send(start)
    await send({"type": "http.response.body", "body": b"" if head else answer.body})


def raw_answer(
    answer: Answer, more_headers: HeaderList, *, close: bool, head: bool = False
) -> bytes:
    """Spell an answer as it is on the wire; with `close` it is the last on its connection."""
    lines = [_STATUS_LINES[answer.status]]
    if close:
        lines.append(b"connection: close")
    lines += [b"%b: %b" % header for header in more_headers]
    lines += [b"%b: %b" % header for header in answer.all_headers]
    return b"\r\n".join((*lines, b"", b"" if head else answer.body))


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
