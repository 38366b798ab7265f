"""Events that follow each other, spelled once for all clients of a kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache

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
    def size(self) -> int:
        """Count their bytes."""
        return sum(map(len, self.bodies))

    @cached_property
    def frames(self) -> bytes:
        """Spell them as WebSocket text frames."""
        pieces: list[bytes] = []
        for body in self.bodies:
            pieces += (frame_head(len(body)), body)
        return b"".join(pieces)

    @cached_property
    def sse(self) -> bytes:
        """Spell them as server-sent events, in one chunk of HTTP/1.1."""
        return http_chunk(
            b"".join(
                b"id: %d\ndata: %b\n\n" % (sequence, body)
                for sequence, body in enumerate(self.bodies, self.first)
            )
        )


#: Spells a chunk for one kind of clients, the same for all of them.
Spelling = Callable[[Chunk], bytes]


@lru_cache(maxsize=4096)
def frame_head(length: int, kind: bytes = TEXT_FRAME) -> bytes:
    """Spell the head of an unmasked frame, by default of text (RFC 6455, section 5.2)."""
    if length < 126:
        return kind + length.to_bytes(1, "big")
    if length < 65536:
        return kind + b"\x7e" + length.to_bytes(2, "big")
    return kind + b"\x7f" + length.to_bytes(8, "big")


def http_chunk(text: bytes) -> bytes:
    """Spell a chunk of a body whose length is not known (RFC 9112, section 7.1)."""
    return b"%x\r\n%b\r\n" % (len(text), text)
