"""What a terminal printed: numbered by bytes, the last of it kept, and how far it has been sent."""

from __future__ import annotations

import asyncio

from agor.protocol.terminals import KEPT, WINDOW
from agor.rpc import Peer

#: Bytes of a message beyond those that were printed, with room to spare.
_ENVELOPE = 4096


def most_bytes(limit: int, max_line: int) -> int:
    """Tell how many bytes fit into one line, in base64, but no more than `limit`."""
    return max(1, min(limit, (max_line - _ENVELOPE) * 3 // 4))


class Kept:
    """The last of what was printed."""

    def __init__(self) -> None:
        #: How much was printed in all; the next byte has this number.
        self.end = 0
        self._bytes = bytearray()

    @property
    def begin(self) -> int:
        """The number of the oldest byte that is kept."""
        return self.end - len(self._bytes)

    def add(self, data: bytes) -> None:
        """Take what was printed next; what is too old is dropped."""
        self._bytes += data
        self.end += len(data)
        if (surplus := len(self._bytes) - KEPT) > 0:
            del self._bytes[:surplus]

    def piece(self, after: int, limit: int) -> tuple[int, bytes]:
        """Give what is kept from a place on, or from the oldest; and where that begins."""
        offset = max(after, self.begin)
        start = offset - self.begin
        return offset, bytes(self._bytes[start : start + limit])


class Viewer:
    """A connection that looks at a terminal, and how far it has what was printed."""

    def __init__(self, peer: Peer, offset: int) -> None:
        self.peer = peer
        #: What was given in answer to a request needs no acknowledgement: it was waited for.
        self.sent = self.acknowledged = offset
        #: Waits until the connection takes more.
        self.relief: asyncio.Task[None] | None = None

    @property
    def room(self) -> int:
        """How many bytes may be sent ahead of an acknowledgement."""
        return self.acknowledged + WINDOW - self.sent

    def acknowledge(self, offset: int) -> None:
        """Note how far it has passed on what it got; not more than that, and never less."""
        if offset <= self.sent:
            self.acknowledged = max(self.acknowledged, offset)

    def leave(self) -> None:
        """Wait for it no more."""
        if self.relief is not None:
            self.relief.cancel()
