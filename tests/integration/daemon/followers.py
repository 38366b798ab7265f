"""Clients of a feed that are cut off, hang up, and stop reading, as a test draws it."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx

from agor.client import Client
from agor.protocol.api import FeedEvent
from agor.protocol.conversation import Conversation, read_event
from tests.integration.daemon.daemon_process import DaemonProcess
from tests.integration.daemon.proxy import Proxy, proxy_to


@dataclass(frozen=True)
class Plan:
    """How one follower behaves."""

    transport: str
    #: After so many events each, it loses its connection and comes back with its cursor.
    cuts: tuple[int, ...]
    #: After so many events it reads nothing more, until all is over and everything waits for it.
    stalls_after: int | None


class Follower(ABC):
    """Follows a feed into a state."""

    def __init__(self, session_id: str, plan: Plan) -> None:
        self.session_id = session_id
        self.plan = plan
        self.state = Conversation()

    async def run(self, tasks: int, over: asyncio.Event) -> Conversation:
        """Follow until so many tasks have ended; `over` is when they have, for all we know."""
        cuts, stalls_after = list(self.plan.cuts), self.plan.stalls_after
        left = cuts.pop(0) if cuts else None
        async with self._following():
            while not is_over(self.state, tasks):
                if stalls_after is not None and self.state.sequence >= stalls_after:
                    stalls_after = None
                    await over.wait()
                event = await self._next()
                assert event.sequence == self.state.sequence + 1
                self.state.take(event)
                if left is not None and (left := left - 1) <= 0:
                    left = cuts.pop(0) if cuts else None
                    await self._cut()
        return self.state

    @abstractmethod
    def _following(self) -> contextlib.AbstractAsyncContextManager[None]: ...

    @abstractmethod
    async def _next(self) -> FeedEvent: ...

    @abstractmethod
    async def _cut(self) -> None: ...


class ClientFollower(Follower):
    """The client's own: it does not notice that its wire is cut."""

    _proxy: Proxy

    def __init__(self, daemon: DaemonProcess, session_id: str, plan: Plan) -> None:
        super().__init__(session_id, plan)
        self._daemon = daemon

    @contextlib.asynccontextmanager
    async def _following(self) -> AsyncIterator[None]:
        async with (
            proxy_to(self._daemon.port) as self._proxy,
            Client(self._proxy.url, self._daemon.token) as client,
            client.follow(self.session_id) as self._feed,
        ):
            yield

    async def _next(self) -> FeedEvent:
        return await anext(self._feed)

    async def _cut(self) -> None:
        self._proxy.cut()


class SseFollower(Follower):
    """A browser's way: server-sent events, and Last-Event-ID to come back with."""

    def __init__(self, daemon: DaemonProcess, session_id: str, plan: Plan) -> None:
        super().__init__(session_id, plan)
        self._url = f"{daemon.url}/sessions/{session_id}/events"
        self._headers = {"Authorization": f"Bearer {daemon.token}"}
        self._connection = contextlib.AsyncExitStack()
        self._events: AsyncIterator[FeedEvent] | None = None

    @contextlib.asynccontextmanager
    async def _following(self) -> AsyncIterator[None]:
        async with httpx.AsyncClient(timeout=30) as self._web, self._connection:
            yield

    async def _next(self) -> FeedEvent:
        if self._events is None:
            headers = self._headers | {"Last-Event-ID": str(self.state.sequence)}
            answer = await self._connection.enter_async_context(
                self._web.stream("GET", self._url, headers=headers)
            )
            assert answer.status_code == 200
            self._events = read_sse(answer)
        return await anext(self._events)

    async def _cut(self) -> None:
        self._events = None
        await self._connection.aclose()


async def read_sse(answer: httpx.Response) -> AsyncIterator[FeedEvent]:
    """Read server-sent events, as the standard has it as far as the daemon uses it."""
    number = None
    unread = b""
    async for piece in answer.aiter_raw():
        *lines, unread = (unread + piece).split(b"\n")
        for line in lines:
            assert b"\r" not in line
            name, _, value = line.partition(b": ")
            if name == b"id":
                number = int(value)
            elif name == b"data":
                event = read_event(value)
                assert event.sequence == number
                yield event


def is_over(state: Conversation, tasks: int) -> bool:
    """Tell whether so many tasks have ended, and the session says so."""
    ended = [task for task in state.tasks.values() if task.ended_at is not None]
    return (
        len(ended) == tasks
        and state.session is not None
        and state.session.status in ("idle", "failed")
    )
