"""Those who look at one terminal: each gets all that it prints, from its own place on, once.

What a terminal prints is numbered by bytes. The daemon has it from the executor once, for all; how
far the executor may go on is decided by the slowest of them, as with one who reads slowly over ssh.
Nothing here is logged or kept: people type passwords.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from agor.errors import Conflict, InvalidParams, PeerStalled
from agor.protocol.terminal_api import Attached, Exited
from agor.protocol.terminals import KEPT, WINDOW, AttachTerminalResult

#: Bytes that all have read before the executor hears of it: it would be woken for every key.
ACK_BYTES = WINDOW // 4
#: Bytes that may wait for one client. An honest executor sends less, unless others come and go.
_MOST_WAITING = 2 * (KEPT + WINDOW)

Piece = bytes | Attached | Exited


class Queue:
    """What one client is still to be sent, in order."""

    def __init__(self, place: int) -> None:
        self._pieces: deque[Piece] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self._cut = False
        #: All before this place has been sent to the client.
        self.taken = place

    def put(self, piece: Piece) -> None:
        """Add what comes next; beyond its bound the client is cut off, which comes to know it."""
        if self._cut:
            return
        if isinstance(piece, bytes):
            self._size += len(piece)
            if self._size > _MOST_WAITING:
                self._cut = True
                self._pieces.clear()
        self._pieces.append(piece)
        self._wake.set()

    async def next(self) -> Piece:
        """Wait for what comes next; raises `PeerStalled` if that was too much."""
        while not self._pieces:
            self._wake.clear()
            await self._wake.wait()
        if self._cut:
            raise PeerStalled("more came than can wait for a client that reads slowly")
        piece = self._pieces.popleft()
        if isinstance(piece, bytes):
            self._size -= len(piece)
        elif isinstance(piece, Attached):
            self.taken = piece.offset
        return piece


def beyond(after: int) -> Conflict:
    """Say that a client's place is none of this terminal's."""
    return Conflict(
        f"after={after} is beyond all that this terminal has printed",
        hint="It is a place in another terminal; begin again with after=0.",
    )


class Audience:
    """All who look at one terminal."""

    def __init__(self, acknowledge: Callable[[int], None]) -> None:
        self._acknowledge = acknowledge
        self._queues: set[Queue] = set()
        #: All before this place has come from the executor.
        self.place = 0
        self._acknowledged = 0
        self._cols, self._rows = 80, 24

    def __len__(self) -> int:
        return len(self._queues)

    # ── from the executor ────────────────────────────────────────────────────────────────────

    def begin(self, told: AttachTerminalResult) -> None:
        """Go on from an answer of the executor, which begins to send anew behind it."""
        self._cols, self._rows = told.cols, told.rows
        self._acknowledged = told.offset
        if not self._queues:
            self.place = told.offset + len(told.data)
        else:
            self.take(told.offset, told.data)

    def admit(self, after: int, told: AttachTerminalResult) -> Queue:
        """Let a client in who has all before a place; `told` is the answer that `begin` got."""
        if after > told.offset + len(told.data):
            raise beyond(after)
        place = max(after, told.offset)
        queue = Queue(place)
        queue.put(Attached(offset=place, cols=told.cols, rows=told.rows))
        if fresh := told.data[place - told.offset :]:
            queue.put(fresh)
        self._queues.add(queue)
        return queue

    def take(self, offset: int, data: bytes) -> None:
        """Hand on what was printed; what came before is dropped, what is missing is told."""
        end = offset + len(data)
        if end <= self.place:
            return
        if offset > self.place:
            lost = Attached(offset=offset, cols=self._cols, rows=self._rows)
            for queue in self._queues:
                queue.put(lost)
            self.place = offset
        fresh = data[self.place - offset :]
        self.place = end
        if self._queues and self.place - self._acknowledged > _MOST_WAITING:
            raise InvalidParams("a terminal printed more than was acknowledged, and its window")
        for queue in self._queues:
            queue.put(fresh)

    def end(self, told: Exited) -> None:
        """Tell all that it has ended, behind what it had printed."""
        for queue in self._queues:
            queue.put(told)

    # ── to the clients ───────────────────────────────────────────────────────────────────────

    def took(self, queue: Queue, size: int) -> None:
        """A client has taken so many bytes more."""
        queue.taken += size
        self._tell_progress()

    def leave(self, queue: Queue) -> None:
        """Let a client go: nobody waits for it any more."""
        self._queues.discard(queue)
        self._tell_progress()

    def _tell_progress(self) -> None:
        if not self._queues:
            return
        least = min(queue.taken for queue in self._queues)
        if least - self._acknowledged >= ACK_BYTES:
            self._acknowledged = least
            self._acknowledge(least)
