"""A session's feed, followed over cuts, restarts and slow readers as if there were none.

Invariants:
- events come in order, each once; anything else is an error and never handed on;
- nothing is read from the socket that nobody asks for: who does not read makes the daemon wait,
  and is sent away by it in the end, and comes back to where it was.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
from websockets.exceptions import ConnectionClosed

from agor.client.address import Find
from agor.client.reconnecting import ReconnectingSocket
from agor.errors import AgorError, InvalidResult, NotFound, StoreDamaged
from agor.protocol.api import FeedEvent, TaskState
from agor.protocol.conversation import read_event
from agor.protocol.validation import UNREADABLE, name_the_field

#: The close codes that say that there is nothing to come back to, or that it cannot be read.
_GONE, _DAMAGED = 4404, 4500


class Feed(ReconnectingSocket, AsyncIterator[FeedEvent]):
    """The events of one session, behind a cursor, without end. Close it, or use `async with`."""

    what = "the feed"
    #: More than the longest event that a daemon can be configured to take.
    longest = 2**30 + 2**20

    def __init__(
        self, find: Find, session_id: str, after: int, reconnect_timeout: float | None
    ) -> None:
        super().__init__(find, reconnect_timeout)
        self._session_id = session_id
        #: The sequence of the last event that was given.
        self.cursor = after

    async def __anext__(self) -> FeedEvent:
        while not self._closed:
            socket = await self._connected()
            try:
                body = await socket.recv(decode=False)
            except ConnectionClosed as cut:
                await self._come_back(cut)
            else:
                return self._check(body)
        await self.close()
        raise StopAsyncIteration

    def _address(self) -> str:
        return f"/sessions/{self._session_id}/events?after={self.cursor}"

    def _why_over(self, code: int) -> AgorError | None:
        if code == _GONE:
            return NotFound(f"the session {self._session_id} is gone")
        if code == _DAMAGED:
            return StoreDamaged(
                f"the feed of session {self._session_id} cannot be read behind event "
                f"{self.cursor}: the daemon's database is damaged",
                hint="The daemon's log has the details. Restore a backup: agor restore PATH.",
            )
        return None

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
