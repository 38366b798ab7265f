"""A pair of peers in one process, joined in memory.

A twin of the socket: the same bytes, the same order, the same flow control and the same ends, so
whatever holds over one holds over the other. Bytes are handed over in the loop's next turn, never
inside the call that writes them.
"""

from __future__ import annotations

import asyncio

from agor.rpc.limits import Limits
from agor.rpc.peer import Peer
from agor.rpc.routes import Routes

#: What the receiving side may be handed at once; as much as a socket read would bring.
_CHUNK = 256 * 1024


def pair(here: Routes, there: Routes, limits: Limits | None = None) -> tuple[Peer, Peer]:
    """Make two connected peers, which serve `here` and `there`."""
    one, other = Peer(here, limits), Peer(there, limits)
    join(one, other)
    return one, other


def join(one: asyncio.Protocol, other: asyncio.Protocol) -> None:
    """Connect two protocols."""
    left, right = MemoryTransport(one), MemoryTransport(other)
    left.connect(right)
    right.connect(left)
    one.connection_made(left)
    other.connection_made(right)


class MemoryTransport(asyncio.Transport):
    """One direction out, its twin the other; each holds what its own side has yet to be taken."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._twin: MemoryTransport | None = None
        self._unsent: list[bytes] = []
        self._size = 0
        self._high, self._low = 64 * 1024, 16 * 1024
        self._writing_paused = False
        self._reading_paused = False
        self._closing = False
        self._ended = False
        self._moving = False

    def connect(self, twin: MemoryTransport) -> None:
        """Say where the bytes go."""
        self._twin = twin

    # ── writing ──────────────────────────────────────────────────────────────────────────────

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when the protocol is told to wait, and when to go on."""
        # On top of what a socket would take without anybody noticing.
        self._high = _CHUNK + (64 * 1024 if high is None else high)
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Count the bytes that the other side has not taken."""
        return self._size

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes for the other side."""
        if not data or self._closing or self._ended:
            return
        self._unsent.append(bytes(data))
        self._size += len(data)
        if self._size > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()
        self._move_soon()

    def _move_soon(self) -> None:
        if not self._moving:
            self._moving = True
            self._loop.call_soon(self._move)

    def _move(self) -> None:
        """Hand over one chunk; come again in the next turn if there is more."""
        self._moving = False
        twin = self._twin
        if twin is None or twin._ended or twin._reading_paused:  # noqa: SLF001 - its other half
            return
        if self._unsent:
            data = self._take_chunk()
            twin._protocol.data_received(data)  # noqa: SLF001
            self._resume_if_low()
            self._move_soon()
        elif self._closing and not self._ended:
            self._end(None)

    def _take_chunk(self) -> bytes:
        data = b"".join(self._unsent)
        self._unsent.clear()
        if len(data) > _CHUNK:
            self._unsent.append(data[_CHUNK:])
        data = data[:_CHUNK]
        self._size -= len(data)
        return data

    def _resume_if_low(self) -> None:
        if self._writing_paused and self._size <= self._low:
            self._writing_paused = False
            self._protocol.resume_writing()

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    def pause_reading(self) -> None:
        """Leave the other side's bytes with it."""
        self._reading_paused = True

    def resume_reading(self) -> None:
        """Take them again."""
        self._reading_paused = False
        if self._twin is not None:
            self._twin._move_soon()  # noqa: SLF001

    def is_reading(self) -> bool:
        """Tell whether bytes are taken."""
        return not self._reading_paused

    # ── ending ───────────────────────────────────────────────────────────────────────────────

    def is_closing(self) -> bool:
        """Tell whether the end has begun."""
        return self._closing or self._ended

    def close(self) -> None:
        """End once the other side has taken everything."""
        self._closing = True
        self._move_soon()

    def abort(self) -> None:
        """End now."""
        self._unsent.clear()
        self._size = 0
        self._closing = True
        self._loop.call_soon(self._end, None)

    def _end(self, exc: Exception | None) -> None:
        if self._ended:
            return
        self._ended = True
        self._protocol.connection_lost(exc)
        if self._twin is not None and not self._twin._ended:  # noqa: SLF001
            self._twin._other_side_ended()  # noqa: SLF001

    def _other_side_ended(self) -> None:
        # What we still had for it will never be taken.
        self._unsent.clear()
        self._size = 0
        self._closing = True
        if not self._protocol.eof_received():
            self._end(None)
        else:
            self._loop.call_soon(self._end, None)
