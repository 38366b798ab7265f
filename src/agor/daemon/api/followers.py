"""The two kinds of followers of a feed: how a chunk is spelled, over what."""

from __future__ import annotations

from typing import ClassVar

from agor.daemon.api.outlet import Outlet
from agor.daemon.services.feed import Chunk, Follower


class OutletFollower(Follower):
    """A follower over a connection of ours."""

    #: What it is called in the metrics.
    transport: ClassVar[str]


class WebSocketFollower(OutletFollower):
    """Gets each event as a text frame."""

    transport = "websocket"

    def __init__(self, cursor: int, outlet: Outlet) -> None:
        super().__init__(cursor, outlet, _as_frames)


class SseFollower(OutletFollower):
    """Gets each event as a server-sent one, in the chunks of HTTP/1.1."""

    transport = "sse"

    def __init__(self, cursor: int, outlet: Outlet) -> None:
        super().__init__(cursor, outlet, _as_http)

    def send(self, text: bytes) -> None:
        """Send whole lines."""
        self.sink.write(_http_chunk(text))

    def beat(self) -> None:
        """Give a sign of life, to those who are not busy reading."""
        if not self.sink.congested:
            self.send(b":\n\n")


def _as_frames(chunk: Chunk) -> bytes:
    return chunk.frames


def _as_http(chunk: Chunk) -> bytes:
    return _http_chunk(chunk.sse)


def _http_chunk(text: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(text), text)
