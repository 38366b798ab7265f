"""The feed of a session: replay from a cursor, then live, with no gap and no duplicate between.

A follower that keeps up is pushed to, the same bytes for all. One that does not keep up reads from
the store at its own pace until it has caught up; so a slow one costs the others nothing, and memory
holds at most one chunk for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, lru_cache, partial
from typing import Protocol

from agor.daemon.metrics import Metrics
from agor.daemon.services.line import Line
from agor.daemon.services.principal import Principal
from agor.daemon.store import events
from agor.daemon.store.base import Store
from agor.errors import Conflict

#: What is read from the store at once.
_PAGE_EVENTS = 2000
_PAGE_BYTES = 512 * 1024
#: The first byte of a WebSocket's frame: the whole of a message, and what it is.
TEXT_FRAME = b"\x81"
BINARY_FRAME = b"\x82"


class Chunk:
    """Events that follow each other, as they are sent."""

    def __init__(self, first: int, bodies: Sequence[bytes]) -> None:
        self.first = first
        self.last = first + len(bodies) - 1
        self.bodies = bodies

    @cached_property
    def frames(self) -> bytes:
        """Spell them as WebSocket text frames."""
        pieces: list[bytes] = []
        for body in self.bodies:
            pieces += (frame_head(len(body)), body)
        return b"".join(pieces)

    @cached_property
    def sse(self) -> bytes:
        """Spell them as server-sent events."""
        return b"".join(
            b"id: %d\ndata: %b\n\n" % (sequence, body)
            for sequence, body in enumerate(self.bodies, self.first)
        )


@lru_cache(maxsize=4096)
def frame_head(length: int, kind: bytes = TEXT_FRAME) -> bytes:
    """Spell the head of an unmasked frame, by default of text (RFC 6455, section 5.2)."""
    if length < 126:
        return kind + length.to_bytes(1, "big")
    if length < 65536:
        return kind + b"\x7e" + length.to_bytes(2, "big")
    return kind + b"\x7f" + length.to_bytes(8, "big")


#: Sends to one client without waiting.
Push = Callable[[bytes], None]


class Sink(Protocol):
    """Where the bytes of one client go."""

    #: Called when the client begins to read more slowly than we write.
    when_congested: Callable[[], None] | None

    @property
    def congested(self) -> bool:
        """Whether the client reads more slowly than we write."""

    @property
    def push(self) -> Push:
        """The shortest way to send. After the end of the connection it may raise `RuntimeError`."""

    def write(self, data: bytes) -> None:
        """Send without waiting. After the end of the connection it does nothing."""

    async def drain(self) -> None:
        """Wait until the client has read enough; raises if it does not read at all."""


#: Spells a chunk for one kind of clients, the same for all of them.
Spelling = Callable[[Chunk], bytes]


class Channel:
    """The live end of one session's feed."""

    def __init__(self, number: int, store: Store, committed: int, metrics: Metrics) -> None:
        self.number = number
        self._store = store
        self._metrics = metrics
        self.line = Line(number, committed, store, self._publish)
        #: Those that are pushed to.
        self.followers: set[Follower] = set()
        #: The ways to them, by what is sent there. There may be thousands of one kind.
        self._pushes: dict[Spelling, dict[Follower, Push]] = {}
        #: Those of them that have fallen behind.
        self._slow: list[Follower] = []
        #: Whose feed it is.
        self.owner: object = None
        #: Set when the session is gone, and so is its feed.
        self.closed = False

    def _publish(self, first: int, bodies: list[bytes]) -> None:
        self._metrics.commits.add(len(bodies))
        if self.followers:
            self._push(Chunk(first, bodies))

    def _push(self, chunk: Chunk) -> None:
        for spelling, pushes in self._pushes.items():
            _send_to_all(list(pushes.values()), spelling(chunk))
        while self._slow:
            self.dismiss(self._slow.pop())

    def admit(self, follower: Follower) -> None:
        """Push to a follower from now on."""
        self.followers.add(follower)
        self._pushes.setdefault(follower.spelling, {})[follower] = follower.sink.push
        follower.sink.when_congested = partial(self._slow.append, follower)

    def dismiss(self, follower: Follower) -> None:
        """Push no more to a follower; it goes on by itself behind what it was sent."""
        if follower in self.followers:
            self.followers.discard(follower)
            del self._pushes[follower.spelling][follower]
            if follower in self._slow:
                self._slow.remove(follower)
            follower.sink.when_congested = None
            follower.cursor = self.line.committed
            follower.wake()

    async def read(self, after: int) -> Chunk | None:
        """Read what is stored behind a cursor, as far as it is committed; None if nothing is."""
        found = await events.page(self._store, self.number, after, _PAGE_EVENTS, _PAGE_BYTES)
        # The store may be ahead of us by what we have not been told of yet.
        bodies = [body for sequence, body in found if sequence <= self.line.committed]
        return Chunk(after + 1, bodies) if bodies else None

    def close(self) -> None:
        """End the feed, for everybody."""
        self.closed = True
        for follower in tuple(self.followers):
            self.dismiss(follower)


def _send_to_all(pushes: list[Push], data: bytes) -> None:
    """Send the same to many. Nothing but the calls: with many clients this is most of our work."""
    left = iter(pushes)
    while True:
        try:
            for push in left:
                push(data)
        except RuntimeError:
            # That one is closed already, and its follower is about to hear it. On to the next.
            continue
        return


class Follower:
    """One client of a feed."""

    def __init__(self, cursor: int, sink: Sink, spelling: Spelling) -> None:
        #: The last sequence that was written; while we are pushed to, the channel knows it.
        self.cursor = cursor
        self.sink = sink
        self.spelling = spelling
        self._dismissed = asyncio.Event()

    async def run(self, channel: Channel) -> None:
        """Send all from the cursor on, until cancelled or the feed is closed."""
        try:
            while not channel.closed:
                if self.cursor < channel.line.committed or self.sink.congested:
                    await self._catch_up(channel)
                    continue
                # Nothing is awaited between the look at `committed` and this: no gap.
                self._dismissed.clear()
                channel.admit(self)
                await self._dismissed.wait()
        finally:
            channel.dismiss(self)

    def wake(self) -> None:
        """Go back to reading at our own pace, or end."""
        self._dismissed.set()

    async def _catch_up(self, channel: Channel) -> None:
        await self.sink.drain()
        chunk = await channel.read(self.cursor)
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
