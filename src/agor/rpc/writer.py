"""The writing half of a transport: order, coalescing, and what happens when nobody reads.

A message after a silence goes out at once. Of those that follow each other the first of a tick
does too, and the rest of the tick goes out together. When the kernel takes
no more the writer is congested: senders wait in `drain`, and one that does not wait is refused past
`max_unsent`. If the other end takes no byte at all for `stall_timeout`, `on_stall` is called.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from agor.errors import BadInput, Disconnected, Overloaded
from agor.protocol.validation import CLOSING
from agor.rpc.limits import Limits

#: Bytes collected in one tick before they are handed to the transport anyway.
_COALESCE = 128 * 1024
#: Seconds of silence after which a message is taken for the only one of its tick: to look at the
#: tick's end whether there were more costs as much as the message.
_LONE = 0.001

_encode_into = msgspec.json.Encoder().encode_into


class Writer:
    """What is still to be written on one connection."""

    #: That of the transport.
    _loop: asyncio.AbstractEventLoop

    def __init__(self, limits: Limits, on_stall: Callable[[], None]) -> None:
        self._limits = limits
        self._max_line = limits.max_line
        self._on_stall = on_stall
        self._transport: asyncio.Transport | None = None
        self._ending: Disconnected | None = None
        #: What was sent in this tick and not handed over.
        self._out = bytearray()
        #: Bytes collected at which they are handed over: at once, or once in a tick with more.
        self._hand_over_at = 0
        #: When something was last handed over at once.
        self._last = 0.0
        #: Bytes given to the transport while congested: whether it gets rid of any is watched then.
        self._handed_over = 0
        #: Whether the other end reads more slowly than we write.
        self.congested = False
        #: Whether a sender has to look twice: not connected, or congested.
        self._in_doubt = True
        self._relief: asyncio.Future[None] | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    def attach(self, transport: asyncio.Transport) -> None:
        """Start writing to a transport."""
        # Nothing may wait in the transport that the kernel can take: with a mark of zero, each
        # write is tried at once, and we are congested exactly when the socket's buffer is full.
        transport.set_write_buffer_limits(high=0)
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._in_doubt = False

    def detach(self, ending: Disconnected) -> None:
        """The connection is gone: whoever waits or comes later is told why."""
        self._transport = None
        self._ending = ending
        self._out.clear()
        self.relieve()

    @property
    def full(self) -> bool:
        """Whether so much is unsent that nobody may add to it."""
        if not self.congested or self._transport is None:
            return False
        return self._transport.get_write_buffer_size() + len(self._out) > self._limits.max_unsent

    def send(self, opening: bytes, params: object) -> None:
        """Write a call whose line begins like this, now or at the end of the tick."""
        if self._in_doubt:
            self._refuse_if_impossible()
        out = self._out
        start = len(out)
        out += opening
        try:
            _encode_into(params, out, -1)
        except BaseException:
            del out[start:]
            raise
        out += CLOSING
        if len(out) >= self._hand_over_at:
            self._look_after(start)

    def send_line(self, line: bytes) -> None:
        """Write a line that was encoded before, now or at the end of the tick."""
        if self._in_doubt:
            self._refuse_if_impossible()
        if self._hand_over_at == 0 and not self.congested and len(line) <= self._max_line:
            # Nothing waits before it.
            self._transport.write(line)  # type: ignore[union-attr]  # not in doubt: it is there
            self._look_out_for_more()
            return
        start = len(self._out)
        self._out += line
        if len(self._out) >= self._hand_over_at:
            self._look_after(start)

    def _look_after(self, start: int) -> None:
        """Hand over what was collected; but take back a last message that is too long."""
        size = len(self._out) - start
        if size > self._max_line:
            del self._out[start:]
            raise BadInput(
                f"a message of {size} bytes is over the cap of {self._max_line}",
                hint="Send it in pieces.",
            )
        self.flush()
        if self._hand_over_at == 0:
            self._look_out_for_more()

    def _look_out_for_more(self) -> None:
        """Collect what else comes in this tick, after something that comes out of silence."""
        last, self._last = self._last, time.monotonic()
        if self._last - last < _LONE:
            self._hand_over_at = min(_COALESCE, self._max_line)
            self._loop.call_soon(self._end_tick)

    def write(self, data: bytes) -> None:
        """Write whole lines at once, after all that was sent before."""
        if self._out:
            self.flush()
        if self.congested:
            self._handed_over += len(data)
        if self._transport is not None:
            self._transport.write(data)

    def flush(self) -> None:
        """Hand to the transport what was collected in this tick."""
        if self._out and self._transport is not None:
            data, self._out = self._out, bytearray()
            if self.congested:
                self._handed_over += len(data)
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the other end has read enough of what was written."""
        while self._relief is not None:
            await asyncio.shield(self._relief)
        if self._ending is not None:
            raise self._ending.again()

    def congest(self) -> None:
        """The transport has more than it should: make senders wait, and watch for progress."""
        if not self.congested:
            self.congested = self._in_doubt = True
            self._relief = self._loop.create_future()
            self._watch()

    def relieve(self) -> None:
        """The transport can take more."""
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        self.congested = False
        self._in_doubt = self._transport is None
        if self._relief is not None:
            self._relief.set_result(None)
            self._relief = None

    def _end_tick(self) -> None:
        self._hand_over_at = 0
        self.flush()

    def _refuse_if_impossible(self) -> None:
        if self._transport is None:
            raise (self._ending or Disconnected("not connected yet")).again()
        if self.full:
            raise Overloaded(
                "the other end does not read what is sent to it",
                hint="Wait for drain() between messages.",
            )

    def _taken(self) -> int:
        unsent = self._transport.get_write_buffer_size() if self._transport else 0
        return self._handed_over - unsent

    def _watch(self) -> None:
        taken = self._taken()

        def look() -> None:
            if self._taken() == taken:
                self._on_stall()
            else:
                self._watch()

        self._stall_timer = self._loop.call_later(self._limits.stall_timeout, look)
