"""What is being followed now, feeds and terminals, each until one of several ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any, Final, NamedTuple, Protocol

import structlog
from prometheus_client import Counter, Gauge

from agor.daemon.api.settings import ApiSettings
from agor.daemon.metrics import Metrics
from agor.daemon.services.people.revocations import Lost
from agor.daemon.services.principal import Principal
from agor.errors import (
    Disconnected,
    NotFound,
    PeerStalled,
    PoolClosed,
    StoreDamaged,
    StoreUnavailable,
)

log = structlog.get_logger("agor.api")


class Ending(NamedTuple):
    """Why something is followed no more: a close code of WebSockets, and words."""

    code: int
    reason: str


#: The client went by itself.
LEFT: Final = Ending(1000, "")
SPOKE: Final = Ending(1003, "this feed takes no messages")
FAILED: Final = Ending(1011, "something went wrong in the daemon")
SHUTTING_DOWN: Final = Ending(1012, "the daemon is shutting down")
DAMAGED: Final = Ending(4500, "the database is damaged here: the rest cannot be read")
GONE: Final = Ending(4404, "the session is gone")
NO_ACCESS: Final = Ending(4403, "you may not follow this any more")


def come_back(why: str, cursor: int) -> Ending:
    """Say where to go on: behind what the client will have got once it has read all."""
    return Ending(1013, f"{why}: come back with after={cursor}")


class Stream(Protocol):
    """Something that is sent to a client, until there is no more of it."""

    @property
    def cursor(self) -> int:
        """How far the client has it, once it has read all that was sent."""

    async def run(self) -> Ending:
        """Send; gives why it ended, and raises if the client does not read."""

    def figures(self, metrics: Metrics) -> tuple[Gauge, Counter]:
        """Say where its clients are counted, and those that are cut off."""


class Seat:
    """Somebody who follows something of a session, or is about to.

    It is taken before it is checked whether they may.
    """

    def __init__(self, who: Principal, session_id: str) -> None:
        self.who = who
        self.session_id = session_id
        #: Set when they may not, or not any more.
        self.lost = asyncio.Event()


class LiveFeeds:
    """All of them, so that they can be told when the daemon ends, or somebody's access does."""

    def __init__(self, settings: ApiSettings, metrics: Metrics) -> None:
        self.settings = settings
        self._metrics = metrics
        self._running: set[asyncio.Task[Ending]] = set()
        self._seats: set[Seat] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._closing = False

    @contextlib.contextmanager
    def seat(self, who: Principal, session_id: str) -> Iterator[Seat]:
        """Let somebody sit down, unless we are about to close."""
        if self._closing:
            raise PoolClosed("the daemon is shutting down", hint="Try again when it is back.")
        seat = Seat(who, session_id)
        self._seats.add(seat)
        try:
            yield seat
        finally:
            self._seats.discard(seat)

    def revoke(self, lost: Lost) -> None:
        """End the feeds of those who may not follow them any more."""
        for seat in self._seats:
            if lost.concerns(seat.who, seat.session_id):
                seat.lost.set()

    async def follow(
        self,
        seat: Seat,
        stream: Stream,
        hearing: Coroutine[Any, Any, Ending],
    ) -> Ending:
        """Send something until the client goes (`hearing` ends) or it cannot go on; say why."""
        running = asyncio.create_task(stream.run())
        listening = asyncio.create_task(hearing)
        losing = asyncio.create_task(seat.lost.wait())
        parts = (running, listening, losing)
        self._running.add(running)
        self._empty.clear()
        gauge, cut_off = stream.figures(self._metrics)
        gauge.inc()
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            if losing.done():
                return NO_ACCESS
            if listening.done() and not running.done():
                return listening.result()
            return self._why(running, stream, cut_off)
        finally:
            gauge.dec()
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)
            self._running.discard(running)
            if not self._running:
                self._empty.set()

    def _why(self, running: asyncio.Task[Ending], stream: Stream, cut_off: Counter) -> Ending:
        if running.cancelled():
            return SHUTTING_DOWN
        match running.exception():
            case None:
                return running.result()
            case NotFound():
                return GONE
            case PeerStalled():
                cut_off.inc()
                return come_back("too slow", stream.cursor)
            case Disconnected():
                return LEFT
            case StoreUnavailable():
                return come_back("the database is unavailable", stream.cursor)
            case StoreDamaged() as error:
                log.error("feed_damaged", cursor=stream.cursor, why=error.message)
                return DAMAGED
            case error:
                log.error("feed_failed", exc_info=error)
                return FAILED

    async def close(self, timeout: float) -> None:
        """Tell every client to go, and wait until they are told, so long."""
        self._closing = True
        for running in self._running:
            running.cancel()
        try:
            async with asyncio.timeout(timeout):
                await self._empty.wait()
        except TimeoutError:
            log.warning("feeds_still_open", count=len(self._running))
