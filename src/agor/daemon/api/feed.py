"""The feed of a session, over server-sent events and over a WebSocket."""

from __future__ import annotations

import asyncio
import re

from agor.daemon.api.answers import Receive
from agor.daemon.api.followers import FollowedFeed, SseFollower, WebSocketFollower
from agor.daemon.api.forms import FeedQuery
from agor.daemon.api.live import LEFT, SPOKE, Ending
from agor.daemon.api.outlet import Outlet
from agor.daemon.api.route import Connection, Request
from agor.daemon.api.websocket_protocol import WebSocketProtocol
from agor.errors import Unprocessable

_SSE_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # A proxy in between must not collect what should be seen at once.
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]
#: Milliseconds after which a browser comes back by itself.
_COME_BACK_AFTER = b"retry: 1000\n\n"
_SEQUENCE = re.compile(rb"[0-9]{1,18}")


async def over_sse(request: Request[FeedQuery], connection: Connection) -> None:
    """Send a feed as server-sent events."""
    after = _cursor(request)
    with connection.feeds.seat(request.who, request.id) as seat:
        channel = await request.services.feed.open(request.who, request.id, after)
        outlet = Outlet.of(connection.scope)
        follower = SseFollower(after, outlet)
        # A browser comes back after the end of a stream, but not after an error.
        await follower.read_ahead(channel)
        send = connection.send
        await send({"type": "http.response.start", "status": 200, "headers": _SSE_HEADERS})
        if connection.scope["method"] == "HEAD":
            await send({"type": "http.response.body"})
            return
        follower.send(_COME_BACK_AFTER)
        heartbeat = connection.feeds.settings.heartbeat
        hearing = _hear_hang_up(connection.receive, follower, heartbeat)
        await connection.feeds.follow(seat, FollowedFeed(follower, channel), hearing)
    if outlet.congested:
        # The end would wait behind what is not read.
        outlet.abort()
        await _hear_hang_up(connection.receive, follower, heartbeat)
    else:
        await send({"type": "http.response.body"})


async def over_websocket(request: Request[FeedQuery], connection: Connection) -> None:
    """Send a feed as text frames."""
    after = _cursor(request)
    with connection.feeds.seat(request.who, request.id) as seat:
        channel = await request.services.feed.open(request.who, request.id, after)
        await connection.receive()
        await connection.send({"type": "websocket.accept"})
        follower = WebSocketFollower(after, Outlet.of(connection.scope))
        hearing = _hear_word(connection.receive)
        ending = await connection.feeds.follow(seat, FollowedFeed(follower, channel), hearing)
    if ending is not LEFT:
        WebSocketProtocol.of(connection.scope).farewell(ending.code, ending.reason)


def _cursor(request: Request[FeedQuery]) -> int:
    """Tell where to begin: a browser that comes back knows better than the address it uses."""
    last = request.headers.get(b"last-event-id")
    if last is None:
        return request.form.after
    if _SEQUENCE.fullmatch(last) is None:
        raise Unprocessable("Last-Event-ID: expected the sequence of an event")
    return int(last)


async def _hear_hang_up(receive: Receive, follower: SseFollower, heartbeat: float) -> Ending:
    """Wait until the client hangs up, with a sign of life now and then."""
    while True:
        try:
            async with asyncio.timeout(heartbeat):
                message = await receive()
        except TimeoutError:
            follower.beat()
            continue
        if message["type"] == "http.disconnect":
            return LEFT


async def _hear_word(receive: Receive) -> Ending:
    """Wait until the client goes, or says something."""
    message = await receive()
    return LEFT if message["type"] == "websocket.disconnect" else SPOKE
