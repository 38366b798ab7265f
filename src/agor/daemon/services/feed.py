"""The feed of a session: replay from a cursor, then live, with no gap and no duplicate between.

A follower that keeps up is pushed to, the same bytes for all. One that does not keep up reads from
the store at its own pace until it has caught up; so a slow one costs the others nothing, and memory
holds at most one chunk for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agor.daemon.metrics import Metrics
from agor.daemon.services.chunks import Chunk, Spelling
from agor.daemon.services.line import Line
from agor.daemon.services.principal import Principal
from agor.daemon.services.ring import Ring, Sink
from agor.daemon.store import events
from agor.daemon.store.base import Store
from agor.errors import Conflict

#: What is read from the store at once.
_PAGE_EVENTS = 2000
_PAGE_BYTES = 512 * 1024


class Channel:
    """The live end of one session's feed."""

    def __init__(self, number: int, store: Store, committed: int, metrics: Metrics) -> None:
        self.number = number
        self._store = store
        self._metrics = metrics
        self.line = Line(number, committed, store, self._publish)
        #: Those that are pushed to.
        self.followers = Ring(committed)
        #: Whose feed it is.
        self.owner: object = None
        #: Set when the session is gone, and so is its feed.
        self.closed = False

    def _publish(self, first: int, bodies: list[bytes]) -> None:
        self._metrics.commits.add(len(bodies))
        self.followers.tell(Chunk(first, bodies))

    async def read(self, after: int) -> Chunk | None:
        """Read what is stored behind a cursor, as far as it is committed; None if nothing is."""
        found = await events.page(self._store, self.number, after, _PAGE_EVENTS, _PAGE_BYTES)
        # The store may be ahead of us by what we have not been told of yet.
        bodies = [body for sequence, body in found if sequence <= self.line.committed]
        return Chunk(after + 1, bodies) if bodies else None

    def close(self) -> None:
        """End the feed, for everybody."""
        self.closed = True
        self.followers.close()


class Follower:
    """One client of a feed."""

    def __init__(self, cursor: int, sink: Sink, spelling: Spelling) -> None:
        #: The last sequence that was written; while we are pushed to, the ring knows it.
        self.cursor = cursor
        self.sink = sink
        self.spelling = spelling
        self._dismissed = asyncio.Event()
        #: The next page, if it was read before anything was sent.
        self._ahead: Chunk | None = None

    async def read_ahead(self, channel: Channel) -> None:
        """Read the first page now, while an error can still be the answer to the request."""
        if self.cursor < channel.line.committed:
            self._ahead = await channel.read(self.cursor)

    async def run(self, channel: Channel) -> None:
        """Send all from the cursor on, until cancelled or the feed is closed."""
        try:
            while not channel.closed:
                if self.cursor < channel.line.committed or self.sink.congested:
                    await self._catch_up(channel)
                    continue
                # Nothing is awaited between the look at `committed` and this: no gap.
                self._dismissed.clear()
                channel.followers.admit(self)
                await self._dismissed.wait()
        finally:
            channel.followers.dismiss(self)

    def wake(self) -> None:
        """Go back to reading at our own pace, or end."""
        self._dismissed.set()

    async def _catch_up(self, channel: Channel) -> None:
        await self.sink.drain()
        chunk, self._ahead = self._ahead or await channel.read(self.cursor), None
        if chunk is not None:
            self.sink.write(self.spelling(chunk))
            self.cursor = chunk.last


class Feed:
    """The feeds of all sessions."""

    def __init__(self, find: Callable[[Principal, str], Awaitable[Channel]]) -> None:
        self._find = find

    async def open(self, who: Principal, session_id: str, after: int) -> Channel:
        """Find the feed of a session that this person may follow, from a cursor of theirs."""
        channel = await self._find(who, session_id)
        if after > channel.line.committed:
            raise Conflict(
                f"after={after} is beyond the end of this feed, which is {channel.line.committed}",
                hint="The cursor is of another session or database; begin again with after=0.",
            )
        return channel
