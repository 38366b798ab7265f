"""ExecutionEnvironment: one executor, wherever it runs, as a program sees it.

It owns the conversation: the greeting, prompts and stops, events in their order, and coming back
after the connection was cut. How the executor was started, and where, is somebody else's business.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, Protocol

from agor.errors import AgorError, Disconnected, InvalidParams, Overloaded
from agor.protocol.events import TaskResult
from agor.protocol.forms import Nothing
from agor.protocol.methods import (
    ACK_MESSAGES,
    ASSIGNED,
    EXECUTE_PROMPT,
    GET_API_KEY,
    INITIALIZE,
    PING,
    PREPARE_SESSION,
    PROTOCOL_VERSION,
    READ_TRANSCRIPT,
    REPORT_MESSAGE,
    REPORT_TERMINAL,
    REQUEST_PERMISSION,
    SHUTDOWN,
    STOP_TASK,
    AckMessagesParams,
    ExecutePromptParams,
    GetApiKeyParams,
    GetApiKeyResult,
    InitializeParams,
    InitializeResult,
    ReportMessageParams,
    RequestPermissionParams,
    RequestPermissionResult,
    ShutdownParams,
    ShutdownResult,
    StopTaskParams,
    StopTaskResult,
)
from agor.protocol.terminals import ReportTerminalParams
from agor.protocol.transcripts import (
    PrepareSessionParams,
    ReadTranscriptParams,
    ReadTranscriptResult,
    Transcript,
    TranscriptBlock,
    TranscriptForm,
    joined,
    parts_of,
)
from agor.rpc import Peer, Routes
from agor.terminals import Terminals

#: Seconds for a part of a record to be read or written.
_TRANSCRIPT_TIMEOUT = 60.0
#: Milliseconds that an executor waits for a record to grow before it says that it has not.
_WATCH_MS = 20_000
#: Bytes of a record that are sent at once.
_PART = 4 * 1024 * 1024

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

    def take_terminal(
        self, environment: ExecutionEnvironment, report: ReportTerminalParams
    ) -> None:
        """Take what a terminal printed, or that it ended."""


class Conversation(NamedTuple):
    """Which conversation of an agent is meant."""

    session_id: str
    agentic_tool: str
    #: How the agent itself calls it.
    agent_session_id: str
    workspace: str


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
        self.terminals = Terminals(lambda: self._connected)

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
        routes.on_notice(REPORT_TERMINAL, lambda report: self._host.take_terminal(self, report))
        return routes

    # ── work ─────────────────────────────────────────────────────────────────────────────────

    async def execute_prompt(
        self, params: ExecutePromptParams, timeout: float | None = None
    ) -> TaskResult:
        """Run a task to its end; its events go to the host."""
        return await self._connected.call(EXECUTE_PROMPT, params, timeout=timeout)

    async def prepare_session(self, which: Conversation, transcript: Transcript) -> None:
        """Put the record of a conversation where its agent looks for it, so that it can go on."""
        parts = list(parts_of(transcript, _PART))
        for number, part in enumerate(parts):
            params = PrepareSessionParams(
                session_id=which.session_id,
                agentic_tool=which.agentic_tool,
                agent_session_id=which.agent_session_id,
                workspace=which.workspace,
                transcript=part,
                part=number,
                more=number + 1 < len(parts),
            )
            await self._connected.call(PREPARE_SESSION, params, timeout=_TRANSCRIPT_TIMEOUT)

    async def read_session_transcript(self, which: Conversation) -> Transcript:
        """Read the agent's own record of a conversation, whole."""
        parts = [part.transcript async for part in self._read(which, "lines")]
        return joined(parts)

    async def read_session_blocks(self, which: Conversation) -> list[TranscriptBlock]:
        """Read the agent's own record of a conversation as blocks, as they were told live."""
        return [block async for part in self._read(which, "blocks") for block in part.blocks]

    async def watch_session_transcript(self, which: Conversation) -> AsyncIterator[Transcript]:
        """Follow the agent's own record: what there is, then what is added, until nobody asks."""
        cursor: str | None = None
        while True:
            part = await self.read_transcript_part(which, "lines", cursor, wait_ms=_WATCH_MS)
            cursor = part.cursor
            if part.transcript.main or part.transcript.subagents:
                yield part.transcript

    async def _read(
        self, which: Conversation, form: TranscriptForm
    ) -> AsyncIterator[ReadTranscriptResult]:
        more, cursor = True, None
        while more:
            part = await self.read_transcript_part(which, form, cursor)
            more, cursor = part.more, part.cursor
            yield part

    async def read_transcript_part(
        self,
        which: Conversation,
        form: TranscriptForm,
        cursor: str | None,
        wait_ms: int = 0,
    ) -> ReadTranscriptResult:
        """Read as much of a record as fits a message, from a cursor on."""
        params = ReadTranscriptParams(
            session_id=which.session_id,
            agentic_tool=which.agentic_tool,
            agent_session_id=which.agent_session_id,
            workspace=which.workspace,
            form=form,
            cursor=cursor,
            wait_ms=wait_ms,
        )
        patience = _TRANSCRIPT_TIMEOUT + wait_ms / 1000
        return await self._connected.call(READ_TRANSCRIPT, params, timeout=patience)

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

    def assign(self) -> None:
        """Notify it that it is recorded as somebody's, so that it waits for the next daemon."""
        if self._peer is not None and self._peer.connected:
            with contextlib.suppress(Disconnected, Overloaded):
                self._peer.notify(ASSIGNED, Nothing())

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
