"""Brings events to the daemon and questions to it, over whichever connection it has now.

The daemon may vanish and come back at any time. Events wait in the outbox and are sent again after
the last acknowledged one; a question that was cut off is asked again, with the same id.
"""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar

import structlog

from agor.errors import Disconnected, Overloaded
from agor.executor.outbox import Outbox, TaskLog
from agor.protocol.envelope import Notification, encode_lines
from agor.protocol.events import EVENT_TYPES, Event
from agor.protocol.methods import REPORT_MESSAGE, AckMessagesParams, ReportMessageParams
from agor.protocol.validation import Method
from agor.rpc import Peer

P = TypeVar("P")
R = TypeVar("R")

log = structlog.get_logger("agor.executor")

#: Events told in a row without giving anybody else a turn.
_BURST = 64


class Delivery:
    """The way to the daemon. At most one connection, the link, is the daemon's."""

    def __init__(self, max_bytes: int) -> None:
        self.outbox = Outbox(max_bytes)
        self._link: Peer | None = None
        self._linked = asyncio.Event()
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
        # After the answer to the call that attached it.
        asyncio.get_running_loop().call_soon(self._push)

    def detach(self, peer: Peer) -> bool:
        """Forget a connection that has ended. True if it was the daemon's."""
        if peer is not self._link:
            return False
        self._link = None
        self._linked.clear()
        self._stop_sender()
        return True

    def abandon(self, why: Disconnected) -> None:
        """Stop waiting for a daemon: whoever needs it is told that it will not come."""
        self._abandoned = why
        self._pulse(self._linked)
        self._pulse(self._room)

    # ── events ───────────────────────────────────────────────────────────────────────────────

    async def report(self, task: TaskLog, token: str, event: Event) -> None:
        """Tell the daemon of an event; waits while too many are unacknowledged."""
        while not self.outbox.has_room:
            if self._abandoned is not None:
                raise self._abandoned.again()
            self._room.clear()
            await self._room.wait()
        self.report_now(task, token, event)
        self._burst += 1
        if self._burst >= _BURST:
            self._burst = 0
            await asyncio.sleep(0)

    def report_now(self, task: TaskLog, token: str, event: Event) -> None:
        """Tell without waiting for room: only for the few events that end a task."""
        params = ReportMessageParams(
            session_token=token,
            task_id=task.task_id,
            sequence=task.last_sequence + 1,
            timestamp=time.time_ns() // 1_000_000,
            event_type=EVENT_TYPES[type(event)],  # type: ignore[arg-type]
            # Encoded with the rest, in one go; whoever receives it gets it raw.
            event_data=event,  # type: ignore[arg-type]
        )
        self.outbox.add(task, encode_lines([Notification(REPORT_MESSAGE.name, params)]))
        self._push()

    def acknowledge(self, params: AckMessagesParams) -> None:
        """Let go of what the daemon has safe."""
        if not self.outbox.acknowledge(params.task_id, params.sequence):
            log.warning("ack_of_nothing", task_id=params.task_id, sequence=params.sequence)
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
            try:
                return await link.call(method, params, timeout=None)
            except Disconnected:
                log.info("question_cut_off", method=method.name)
                await link.wait_closed()

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
