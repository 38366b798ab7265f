"""Brings events to the daemon and questions to it, over whichever connection it has now.

The daemon may vanish and come back at any time. Events wait in the outbox and are sent again after
the last acknowledged one; a question that was cut off is asked again, with the same id.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TypeVar

import msgspec
import structlog

from agor.agents.turn import MAX_DELTA
from agor.errors import Cancelled, Disconnected, Overloaded
from agor.executor.outbox import Outbox, TaskLog
from agor.protocol.events import EVENT_TYPES, Event, Log, TaskResult
from agor.protocol.methods import REPORT_MESSAGE, AckMessagesParams
from agor.protocol.validation import Method, Notice
from agor.rpc import Peer

P = TypeVar("P")
R = TypeVar("R")

log = structlog.get_logger("agor.executor")

#: Events told in a row without giving anybody else a turn.
_BURST = 64
#: Bytes of an event's line beyond its text, with room to spare.
_ENVELOPE = 4096
#: The line of an event: what all of a task have in common, and the rest of `ReportMessageParams`.
_LINE = b'%b%d,"timestamp":%d,"event_type":%b,"event_data":%b}}\n'
_encode = msgspec.json.Encoder().encode
_TYPES = {form: _encode(name) for form, name in EVENT_TYPES.items()}
#: Characters of an error that is left of one too long to tell.
_SHORT = 500


class Delivery:
    """The way to the daemon. At most one connection, the link, is the daemon's."""

    def __init__(
        self, max_bytes: int, max_line: int = 16 * 1024 * 1024, one_connection: bool = False
    ) -> None:
        self._max_line = max_line
        self._one_connection = one_connection
        #: Characters of text that fit into one event, whatever they are: six bytes at most each.
        self.max_delta = max(1, min(MAX_DELTA, (max_line - _ENVELOPE) // 6))
        self.outbox = Outbox(max_bytes)
        self._link: Peer | None = None
        self._linked = asyncio.Event()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._moved = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._abandoned: Disconnected | None = None
        self._burst = 0

    # ── the link ─────────────────────────────────────────────────────────────────────────────

    @property
    def linked(self) -> bool:
        """Whether there is a daemon."""
        return self._link is not None

    def attach(self, peer: Peer) -> None:
        """Make this connection the daemon's; what was not acknowledged is sent again."""
        if peer is self._link:
            return
        self._link = peer
        self._abandoned = None
        self._stop_sender()
        self.outbox.rewind()
        self._linked.set()
        self._pulse(self._changed)
        # After the answer to the call that attached it.
        asyncio.get_running_loop().call_soon(self._push)

    def detach(self, peer: Peer) -> bool:
        """Forget a connection that has ended. True if it was the daemon's."""
        if peer is not self._link:
            return False
        self._link = None
        self._linked.clear()
        self._pulse(self._changed)
        self._stop_sender()
        return True

    def abandon(self, why: Disconnected) -> None:
        """Stop waiting for a daemon: whoever needs it is told that it will not come."""
        self._abandoned = why
        self._pulse(self._linked)
        self._pulse(self._changed)
        self._pulse(self._room)

    def notify(self, notice: Notice[P], params: P) -> None:
        """Tell the daemon, if it is there; one that comes later is not told."""
        if self._link is not None:
            with contextlib.suppress(Disconnected, Overloaded):
                self._link.notify(notice, params)

    # ── events ───────────────────────────────────────────────────────────────────────────────

    def open(self, task_id: str, token: str) -> TaskLog:
        """Begin the events of a task. What they have in common is spelled once."""
        return self.outbox.open(task_id, _opening(task_id, token))

    async def report(self, task: TaskLog, event: Event) -> None:
        """Tell the daemon of an event; waits while too many are unacknowledged."""
        if not self.outbox.has_room:
            await self._wait_for_room()
        self.report_now(task, event)
        self._burst += 1
        if self._burst >= _BURST:
            self._burst = 0
            await asyncio.sleep(0)

    async def _wait_for_room(self) -> None:
        while not self.outbox.has_room:
            if self._abandoned is not None:
                raise self._abandoned.again()
            self._room.clear()
            await self._room.wait()

    def report_now(self, task: TaskLog, event: Event) -> None:
        """Tell without waiting for room: only for the few events that end a task."""
        line = _LINE % (
            task.opening,
            task.last_sequence + 1,
            time.time_ns() // 1_000_000,
            _TYPES[type(event)],
            _encode(event),
        )
        if len(line) > self._max_line:
            self.report_now(task, _shortened(event, len(line)))
            return
        link, outbox = self._link, self.outbox
        if link is None or link.congested or outbox.unsent or self._sender is not None:
            outbox.add(task, line)
            self._push()
            return
        # The way of nearly all: nobody waits before it, and it goes out now.
        outbox.add_sent(task, line)
        try:
            link.send_line(line)
        except (Disconnected, Overloaded):
            # It is not acknowledged: the next connection brings it.
            return

    def acknowledge(self, params: AckMessagesParams) -> None:
        """Let go of what the daemon has safe."""
        if not self.outbox.acknowledge(params.task_id, params.sequence):
            log.debug("ack_of_nothing", task_id=params.task_id, sequence=params.sequence)
        if self.outbox.has_room:
            self._room.set()
        self._pulse(self._moved)

    async def wait_sent(self, task: TaskLog) -> None:
        """Wait until the task's events are on their way."""
        while task.unsent:
            await self._moved.wait()

    async def wait_acknowledged(self) -> None:
        """Wait until the daemon has everything safe."""
        while not self.outbox.empty:
            await self._moved.wait()

    # ── questions ────────────────────────────────────────────────────────────────────────────

    async def ask(self, method: Method[P, R], params: P) -> R:
        """Ask the daemon, this one or the next, until there is an answer."""
        while True:
            link = await self._wait_link()
            call = asyncio.create_task(link.call(method, params, timeout=None))
            other = asyncio.create_task(self._wait_other_than(link))
            try:
                await asyncio.wait((call, other), return_when=asyncio.FIRST_COMPLETED)
                if call.done():
                    return call.result()
            except (Disconnected, Cancelled):
                # Gone, or going: that is no answer. The next daemon is asked.
                log.info("question_cut_off", method=method.name)
                if self._one_connection:
                    raise Disconnected("the connection ended before the answer") from None
                await other
            finally:
                call.cancel()
                other.cancel()
                await asyncio.gather(call, other, return_exceptions=True)

    async def _wait_other_than(self, link: Peer) -> None:
        while self._link is link and self._abandoned is None:
            await self._changed.wait()

    async def _wait_link(self) -> Peer:
        while self._link is None:
            if self._abandoned is not None:
                raise self._abandoned.again()
            await self._linked.wait()
        return self._link

    # ── sending ──────────────────────────────────────────────────────────────────────────────

    def _push(self) -> None:
        """Send what is unsent, as far as the link takes it."""
        link = self._link
        if link is None or self._sender is not None:
            return
        try:
            while not link.congested and (line := self.outbox.next_unsent()) is not None:
                link.send_line(line)
        except (Disconnected, Overloaded):
            # The line counts as sent and is not acknowledged: the next connection brings it.
            return
        if link.congested:
            self._sender = asyncio.create_task(self._push_later(link))
        self._pulse(self._moved)

    async def _push_later(self, link: Peer) -> None:
        try:
            await link.drain()
        except Disconnected:
            return
        self._sender = None
        self._push()

    def _stop_sender(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            self._sender = None

    @staticmethod
    def _pulse(event: asyncio.Event) -> None:
        """Wake whoever waits now, without leaving the event set."""
        was_set = event.is_set()
        event.set()
        if not was_set:
            event.clear()


def _opening(task_id: str, token: str) -> bytes:
    """Spell the line of a `report_message` as far as its sequence."""
    members = (token, task_id)
    return b'%b{"session_token":%b,"task_id":%b,"sequence":' % (
        REPORT_MESSAGE.opening, *map(_encode, members),
    )  # fmt: skip


def _shortened(event: Event, size: int) -> Event:
    """Put something in the place of an event that is over the cap: a sequence has no gaps."""
    if isinstance(event, TaskResult) and event.error is not None:
        error = msgspec.structs.replace(event.error, message=f"{event.error.message[:_SHORT]}…")
        return msgspec.structs.replace(event, error=error)
    return Log("warning", f"an event of {size} bytes was left out, it is over the cap")
