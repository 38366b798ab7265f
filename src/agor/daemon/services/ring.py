"""The followers of a feed that keep up: a ring of small segments, a few of which are told a turn.

To tell a thousand clients at a stretch takes milliseconds in which everybody else waits. So a few
are told, others have a turn, and then it goes on with the next few. What has been committed by then
goes to them with the same send: the more there is to tell, the fewer sends an event takes.

Invariants:
- all of a segment have been sent the same, up to the end of a chunk;
- the ring is in the order of what was sent: its first segment has the least;
- what is kept is what the first segment was not sent; while there is any, a turn is coming.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import structlog

from agor.daemon.services.chunks import Chunk, Spelling

log = structlog.get_logger("agor.feed")

#: Followers of one segment, and at least so many are told in one turn.
_FEW = 8
#: Turns until all are told: whoever makes a turn long, the last one must not wait for many of them.
_MOST_TURNS = 16
#: Bytes that may wait for the turns of the others. Beyond that all are told at once.
_MOST_KEPT = 1024 * 1024

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

    def abort(self) -> None:
        """Hang up."""


class Member(Protocol):
    """What the ring has to know of a follower."""

    #: The last sequence that was sent, once it is no longer in the ring.
    cursor: int

    @property
    def sink(self) -> Sink:
        """Where its bytes go."""

    @property
    def spelling(self) -> Spelling:
        """How it is spelled to."""

    def wake(self) -> None:
        """Go on by yourself, from the cursor."""


class Segment:
    """A few followers that are sent the same."""

    __slots__ = ("pushes", "sent", "spelling")

    def __init__(self, spelling: Spelling, sent: int) -> None:
        self.spelling = spelling
        #: The last sequence that they were sent.
        self.sent = sent
        self.pushes: dict[Member, Push] = {}


class Ring:
    """Tells those who keep up, in turns."""

    def __init__(self, last: int) -> None:
        #: The last sequence that there is to tell.
        self._last = last
        self._segments: deque[Segment] = deque()
        self._places: dict[Member, Segment] = {}
        #: What the first segment was not sent yet, and its size.
        self._kept: deque[Chunk] = deque()
        self._kept_bytes = 0
        #: The same in one piece, once somebody was sent it.
        self._whole: Chunk | None = None
        self._turn_comes = False
        #: Those that have begun to read more slowly than we write.
        self._slow: list[Member] = []

    def __len__(self) -> int:
        return len(self._places)

    def admit(self, member: Member) -> None:
        """Send to a follower from now on; it has all that there is."""
        segment = self._with_room(member.spelling)
        segment.pushes[member] = member.sink.push
        self._places[member] = segment
        member.sink.when_congested = partial(self._slow.append, member)

    def dismiss(self, member: Member) -> None:
        """Send no more to a follower; it goes on by itself behind what it was sent."""
        segment = self._places.pop(member, None)
        if segment is None:
            return
        del segment.pushes[member]
        if not segment.pushes:
            self._segments.remove(segment)
            self._forget()
        if member in self._slow:
            self._slow.remove(member)
        member.sink.when_congested = None
        member.cursor = segment.sent
        member.wake()

    def tell(self, chunk: Chunk) -> None:
        """Send this to all: to the first few now, to the others when it is their turn."""
        self._last = chunk.last
        if not self._segments:
            return
        self._kept.append(chunk)
        self._kept_bytes += chunk.size
        if self._kept_bytes > _MOST_KEPT:
            self._tell_all()
        elif not self._turn_comes:
            self._tell_few()

    def close(self) -> None:
        """Send them the rest, and dismiss them all."""
        self._tell_all()
        for member in tuple(self._places):
            self.dismiss(member)

    def _take_turn(self) -> None:
        self._turn_comes = False
        self._tell_few()

    def _tell_few(self) -> None:
        few = max(_FEW, len(self._places) // _MOST_TURNS)
        told = 0
        while self._kept and told < few:
            told += self._tell_first()
        if self._kept:
            self._turn_comes = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _tell_all(self) -> None:
        while self._kept:
            self._tell_first()

    def _tell_first(self) -> int:
        """Send the first segment all that there is; gives how many followers it has."""
        segment = self._segments[0]
        pushes = list(segment.pushes.items())
        try:
            data = segment.spelling(self._news())
        except Exception:
            # A bug, or no memory. They go on by themselves, and if they cannot, they are told why.
            log.exception("not_spelled")
            for member, _ in pushes:
                self.dismiss(member)
            return len(pushes)
        segment.sent = self._last
        self._segments.rotate(-1)
        _send_to_all(pushes, data)
        self._forget()
        while self._slow:
            self.dismiss(self._slow.pop())
        return len(pushes)

    def _news(self) -> Chunk:
        """Give all that is kept in one piece, the same one for all segments that have as much."""
        if len(self._kept) == 1:
            return self._kept[0]
        first, whole = self._kept[0].first, self._whole
        if whole is None or (whole.first, whole.last) != (first, self._last):
            self._whole = whole = Chunk(
                first, [body for chunk in self._kept for body in chunk.bodies]
            )
        return whole

    def _forget(self) -> None:
        """Let go of what everybody was sent."""
        sent = self._segments[0].sent if self._segments else self._last
        while self._kept and self._kept[0].last <= sent:
            self._kept_bytes -= self._kept.popleft().size
        if not self._kept:
            self._whole = None

    def _with_room(self, spelling: Spelling) -> Segment:
        """Find or make a segment for one more that has all that there is."""
        for segment in reversed(self._segments):
            if segment.sent < self._last:
                break
            if segment.spelling is spelling and len(segment.pushes) < _FEW:
                return segment
        segment = Segment(spelling, self._last)
        self._segments.append(segment)
        return segment


def _send_to_all(pushes: list[tuple[Member, Push]], data: bytes) -> None:
    """Send the same to many. Nothing but the calls: with many clients this is most of our work."""
    left = iter(pushes)
    while True:
        try:
            for member, push in left:  # noqa: B007 - looked at if it fails
                push(data)
        except RuntimeError:
            # That one is closed already, and its follower is about to hear it. On to the next.
            continue
        except Exception:
            # How much of it went out nobody knows.
            log.exception("not_sent")
            member.sink.abort()
            continue
        return
