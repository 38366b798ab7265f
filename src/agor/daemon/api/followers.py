"""The two kinds of followers of a feed: how a chunk is spelled, over what."""

from __future__ import annotations

from typing import ClassVar

from prometheus_client import Counter, Gauge

from agor.daemon.api.live import GONE, Ending
from agor.daemon.api.outlet import Outlet
from agor.daemon.metrics import Metrics
from agor.daemon.services.chunks import Chunk, http_chunk
from agor.daemon.services.feed import Channel, Follower


class OutletFollower(Follower):
    """A follower over a connection of ours."""

    #: What it is called in the metrics.
    transport: ClassVar[str]


class FollowedFeed:
    """A feed, as it is sent to one client until the session is gone."""

    def __init__(self, follower: OutletFollower, channel: Channel) -> None:
        self._follower = follower
        self._channel = channel

    @property
    def cursor(self) -> int:
        """The sequence of the last event that was sent."""
        return self._follower.cursor

    async def run(self) -> Ending:
        """Send it."""
        await self._follower.run(self._channel)
        return GONE

    def figures(self, metrics: Metrics) -> tuple[Gauge, Counter]:
        """Count clients by how they follow."""
        return metrics.followers.labels(self._follower.transport), metrics.cut_off


class WebSocketFollower(OutletFollower):
    """Gets each event as a text frame."""

    transport = "websocket"

    def __init__(self, cursor: int, outlet: Outlet) -> None:
        super().__init__(cursor, outlet, _as_frames)


class SseFollower(OutletFollower):
    """Gets each event as a server-sent one, in the chunks of HTTP/1.1."""

    transport = "sse"

    def __init__(self, cursor: int, outlet: Outlet) -> None:
        super().__init__(cursor, outlet, _as_sse)

    def send(self, text: bytes) -> None:
        """Send whole lines."""
        self.sink.write(http_chunk(text))

    def beat(self) -> None:
        """Give a sign of life, to those who are not busy reading."""
        if not self.sink.congested:
            self.send(b":\n\n")


def _as_frames(chunk: Chunk) -> bytes:
    return chunk.frames


def _as_sse(chunk: Chunk) -> bytes:
    return chunk.sse
