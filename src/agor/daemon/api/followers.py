"""The two kinds of followers of a feed: how a chunk is written, over what."""

from __future__ import annotations

from typing import ClassVar

from agor.daemon.api.outlet import Outlet
from agor.daemon.services.feed import Chunk, Follower


class OutletFollower(Follower):
    """A follower that writes straight to its connection."""

    #: What it is called in the metrics.
    transport: ClassVar[str]

    def __init__(self, cursor: int, outlet: Outlet) -> None:
        super().__init__(cursor)
        self.outlet = outlet

    @property
    def congested(self) -> bool:
        """Whether the client reads more slowly than we write."""
        return self.outlet.congested

    async def drain(self) -> None:
        """Wait until the client has read enough; raises if it does not read at all."""
        await self.outlet.drain()


class WebSocketFollower(OutletFollower):
    """Gets each event as a text frame. The frames of a chunk are made once for all."""

    transport = "websocket"

    def write(self, chunk: Chunk) -> None:
        """Send a chunk."""
        self.outlet.write(chunk.frames)


class SseFollower(OutletFollower):
    """Gets each event as a server-sent one, in the chunks of HTTP/1.1."""

    transport = "sse"

    def write(self, chunk: Chunk) -> None:
        """Send a chunk."""
        self.send(chunk.sse)

    def send(self, text: bytes) -> None:
        """Send whole lines."""
        self.outlet.write(b"%x\r\n" % len(text), text, b"\r\n")

    def beat(self) -> None:
        """Give a sign of life, to those who are not busy reading."""
        if not self.congested:
            self.send(b":\n\n")
