"""ExecutionEnvironment: one executor, wherever it runs, as a program sees it.

It owns the conversation: the greeting, prompts and stops, events in their order, and coming back
after the connection was cut. How the executor was started, and where, is somebody else's business.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from agor.errors import AgorError, Disconnected, InvalidParams, Overloaded
from agor.protocol.events import TaskResult
from agor.protocol.methods import (
    ACK_MESSAGES,
    EXECUTE_PROMPT,
    GET_API_KEY,
    INITIALIZE,
    PING,
    PROTOCOL_VERSION,
    REPORT_MESSAGE,
    REQUEST_PERMISSION,
    SHUTDOWN,
    STOP_TASK,
    AckMessagesParams,
    ExecutePromptParams,
    GetApiKeyParams,
    GetApiKeyResult,
    InitializeParams,
    InitializeResult,
    Nothing,
    ReportMessageParams,
    RequestPermissionParams,
    RequestPermissionResult,
    ShutdownParams,
    ShutdownResult,
    StopTaskParams,
    StopTaskResult,
)
from agor.rpc import Peer, Routes

#: How to reach an executor: give it routes, get a connection.
Connect = Callable[[Routes], Awaitable[Peer]]


class Host(Protocol):
    """Who an executor reports to and asks: the daemon, or a program that embeds it."""

    def take_events(
        self, environment: ExecutionEnvironment, events: list[ReportMessageParams]
    ) -> None:
        """Take events as they came; acknowledge them once they are safe."""

    def refuse_event(self, environment: ExecutionEnvironment, error: InvalidParams) -> None:
        """An event came that cannot be read."""

    async def get_api_key(
        self, environment: ExecutionEnvironment, params: GetApiKeyParams
    ) -> GetApiKeyResult:
        """Give a key to a task, or refuse."""

    async def request_permission(
        self, environment: ExecutionEnvironment, params: RequestPermissionParams
    ) -> RequestPermissionResult:
        """Decide whether a tool may run."""


class ExecutionEnvironment:
    """A connected executor."""

    def __init__(self, executor_id: str, host: Host, connect: Connect, daemon_id: str) -> None:
        self.executor_id = executor_id
        self._host = host
        self._connect = connect
        self._daemon_id = daemon_id
        self._peer: Peer | None = None
        self._connected_again = asyncio.Event()
        self._over = False
        #: What the executor said of itself at the last greeting.
        self.info: InitializeResult | None = None

    @classmethod
    async def create(
        cls,
        executor_id: str,
        host: Host,
        connect: Connect,
        *,
        daemon_id: str = "library",
        timeout: float = 5.0,
    ) -> ExecutionEnvironment:
        """Connect to an executor and greet it."""
        environment = cls(executor_id, host, connect, daemon_id)
        await environment.reconnect(timeout)
        return environment

    async def reconnect(self, timeout: float) -> InitializeResult:
        """Connect, or connect again: what was not acknowledged is sent once more."""
        await self.disconnect()
        async with asyncio.timeout(timeout):
            peer = await self._connect(self._routes())
            try:
                params = InitializeParams(
                    protocol_version=PROTOCOL_VERSION, daemon_id=self._daemon_id
                )
                self.info = await peer.call(INITIALIZE, params, timeout=None)
            except BaseException:
                peer.abort()
                raise
        self._peer = peer
        self._connected_again.set()
        self._connected_again.clear()
        return self.info

    def _routes(self) -> Routes:
        routes = Routes()
        routes.on_stream(
            REPORT_MESSAGE,
            lambda events: self._host.take_events(self, events),
            lambda error: self._host.refuse_event(self, error),
        )
        routes.on(GET_API_KEY, lambda params: self._host.get_api_key(self, params))
        routes.on(REQUEST_PERMISSION, lambda params: self._host.request_permission(self, params))
        return routes

    # ── work ─────────────────────────────────────────────────────────────────────────────────

    async def execute_prompt(
        self, params: ExecutePromptParams, timeout: float | None = None
    ) -> TaskResult:
        """Run a task to its end; its events go to the host."""
        return await self._connected.call(EXECUTE_PROMPT, params, timeout=timeout)

    async def stop_task(
        self, token: str, task_id: str, reason: str | None = None, timeout: float = 30.0
    ) -> StopTaskResult:
        """End one task."""
        params = StopTaskParams(session_token=token, task_id=task_id, reason=reason)
        return await self._connected.call(STOP_TASK, params, timeout=timeout)

    def acknowledge(self, task_id: str, sequence: int) -> None:
        """Say that events are safe up to this one."""
        if self._peer is not None and self._peer.connected:
            params = AckMessagesParams(task_id=task_id, sequence=sequence)
            # One that does not read has no need of it; the next connection brings it up to date.
            with contextlib.suppress(Disconnected, Overloaded):
                self._peer.notify(ACK_MESSAGES, params)

    # ── life ─────────────────────────────────────────────────────────────────────────────────

    @property
    def connected(self) -> bool:
        """Whether we can speak to it now."""
        return self._peer is not None and self._peer.connected

    async def is_healthy(self, timeout: float = 5.0) -> bool:
        """Ask whether it answers."""
        try:
            return (await self._connected.call(PING, Nothing(), timeout=timeout)).pong
        except AgorError:
            return False

    async def shut_down(self, reason: str, timeout: float) -> ShutdownResult:
        """Tell it to end, with this long for what is under way."""
        params = ShutdownParams(reason=reason, timeout_ms=int(timeout * 1000))
        return await self._connected.call(SHUTDOWN, params, timeout=timeout + 3.0)

    async def wait_disconnected(self) -> Disconnected:
        """Wait for the end of the present connection."""
        return await self._connected.wait_closed()

    async def wait_connected(self) -> None:
        """Wait until we can speak to it; somebody else connects. Raises if nobody ever will."""
        while not self.connected:
            if self._over:
                raise Disconnected(f"executor {self.executor_id} has ended")
            await self._connected_again.wait()

    async def close(self) -> None:
        """Hang up for good: the executor has ended."""
        self._over = True
        await self.disconnect()
        self._connected_again.set()

    async def disconnect(self) -> None:
        """Hang up; the executor goes on."""
        if self._peer is not None:
            peer, self._peer = self._peer, None
            await peer.close()

    @property
    def _connected(self) -> Peer:
        if self._peer is None:
            raise Disconnected(f"executor {self.executor_id} is not connected")
        return self._peer
