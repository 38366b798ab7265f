"""A session's feed, followed over cuts, restarts and slow readers as if there were none.

Invariants:
- events come in order, each once; anything else is an error and never handed on;
- nothing is read from the socket that nobody asks for: who does not read makes the daemon wait,
  and is sent away by it in the end, and comes back to where it was.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import Self

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

import agor
from agor.client.address import Address, Find
from agor.client.calls import no_answer
from agor.client.patience import Patience, wish_of
from agor.client.problems import revive
from agor.errors import AgorError, DaemonNotRunning, Disconnected, InvalidResult, NotFound
from agor.protocol.api import FeedEvent, TaskState
from agor.protocol.conversation import read_event
from agor.protocol.validation import UNREADABLE, name_the_field

#: More than the longest event that a daemon can be configured to take.
_LONGEST_EVENT = 2**30 + 2**20
#: Events that were read from the socket and not asked for; then reading stops.
_MOST_WAITING = 16
_OPEN_TIMEOUT = 10.0
_PING_INTERVAL = 20.0
#: An answer to a ping may lie behind all that we did not read yet.
_PING_TIMEOUT = 60.0
_CLOSE_TIMEOUT = 1.0
#: A connection that lived for so many seconds was a good one.
_GOOD_LIFE = 10.0
#: The close code that says that there is nothing to come back to.
_GONE = 4404
_UNAVAILABLE = 503

# With the library's own logger at `debug`, the token would be in the log.
_logger = logging.getLogger("agor.client.feed")
_logger.setLevel(logging.WARNING)


class Feed(AsyncIterator[FeedEvent]):
    """The events of one session, behind a cursor, without end. Close it, or use `async with`."""

    def __init__(
        self, find: Find, session_id: str, after: int, reconnect_timeout: float | None
    ) -> None:
        self._find = find
        self._session_id = session_id
        #: The sequence of the last event that was given.
        self.cursor = after
        self._reconnect_timeout = reconnect_timeout
        self._socket: ClientConnection | None = None
        self._opened_at = 0.0
        self._patience = Patience()
        #: Since when nothing works.
        self._in_trouble_since: float | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop following. Whoever waits for an event gets no more."""
        self._closed = True
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    def __del__(self) -> None:
        # Of a loop that was left without closing; we may be in any thread here.
        if self._socket is not None:
            with contextlib.suppress(RuntimeError):
                self._socket.loop.call_soon_threadsafe(self._socket.transport.abort)

    async def __anext__(self) -> FeedEvent:
        while not self._closed:
            socket = self._socket
            if socket is None:
                self._socket = await self._open()
                self._opened_at = time.monotonic()
                continue
            try:
                body = await socket.recv(decode=False)
            except ConnectionClosed as cut:
                self._socket = None
                await self._come_back(cut)
            else:
                return self._check(body)
        await self.close()
        raise StopAsyncIteration

    # ── connections ──────────────────────────────────────────────────────────────────────────

    async def _open(self) -> ClientConnection:
        while True:
            wish = None
            try:
                address = self._find()
                return await self._connect(address)
            except DaemonNotRunning as error:
                told: AgorError = error
            except InvalidStatus as refusal:
                status, headers = refusal.response.status_code, refusal.response.headers
                told = revive(status, bytes(refusal.response.body or b""))
                wish = wish_of(headers.get("Retry-After"))
                if status != _UNAVAILABLE:
                    raise told from None
            except (OSError, InvalidHandshake, ConnectionClosed):
                # The last of these in the midst of the handshake.
                told = no_answer(address)
            await self._wait(told, wish)

    async def _connect(self, address: Address) -> ClientConnection:
        return await connect(
            f"{address.websocket_url}/sessions/{self._session_id}/events?after={self.cursor}",
            additional_headers=address.headers,
            user_agent_header=f"agor-client/{agor.__version__}",
            compression=None,
            proxy=None,
            open_timeout=_OPEN_TIMEOUT,
            ping_interval=_PING_INTERVAL,
            ping_timeout=_PING_TIMEOUT,
            close_timeout=_CLOSE_TIMEOUT,
            max_size=_LONGEST_EVENT,
            max_queue=_MOST_WAITING,
            logger=_logger,
        )

    async def _come_back(self, cut: ConnectionClosed) -> None:
        """Decide what a cut means: wait before the next connection, or the end."""
        if self._closed:
            return
        if cut.rcvd is not None and cut.rcvd.code == _GONE:
            raise NotFound(f"the session {self._session_id} is gone")
        if time.monotonic() - self._opened_at > _GOOD_LIFE:
            self._recover()
        why = cut.rcvd.reason if cut.rcvd is not None and cut.rcvd.reason else "connection lost"
        await self._wait(Disconnected(f"the feed was cut ({why})"), None)

    async def _wait(self, trouble: AgorError, wish: float | None) -> None:
        now = time.monotonic()
        since = self._in_trouble_since = self._in_trouble_since or now
        if self._reconnect_timeout is not None and now - since > self._reconnect_timeout:
            # Whoever asks again gets another try, as long as this one.
            self._recover()
            raise trouble
        await self._patience.pause(wish)

    def _recover(self) -> None:
        self._patience.reset()
        self._in_trouble_since = None

    # ── events ───────────────────────────────────────────────────────────────────────────────

    def _check(self, body: bytes) -> FeedEvent:
        try:
            event = read_event(body)
        except UNREADABLE as error:
            raise self._broken(name_the_field(error, "an event")) from None
        if event.sequence != self.cursor + 1:
            raise self._broken(f"after event {self.cursor} came event {event.sequence}")
        self.cursor = event.sequence
        if self._in_trouble_since is not None:
            self._recover()
        return event

    def _broken(self, why: str) -> InvalidResult:
        if self._socket is not None:
            # Whoever asks again gets another connection, from the last good event on.
            self._socket.transport.abort()
            self._socket = None
        return InvalidResult(
            f"the feed of session {self._session_id} is broken: {why}",
            hint=f"Everything up to event {self.cursor} is in order. This is a bug of the daemon.",
        )


async def until_ended(feed: Feed, task_id: str) -> None:
    """Read a feed up to the end of a task."""
    async for event in feed:
        if event.type == "task" and event.task_id == task_id:
            task = msgspec.convert(event.data, TaskState)
            if task.ended_at is not None:
                return
