"""The daemon's side of the wire, in small: records events, answers questions, acknowledges."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from agor.errors import HandlerFailed
from agor.protocol.events import BlockDelta, Event, TaskResult, decode_event
from agor.protocol.forms import Nothing
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
    PingResult,
    ReportMessageParams,
    RequestPermissionParams,
    RequestPermissionResult,
    ShutdownParams,
    ShutdownResult,
    StopTaskParams,
    StopTaskResult,
)
from agor.rpc import Peer, Routes, unix
from tests.integration.processes import PATIENCE

E = TypeVar("E")
Script = list[dict[str, Any]] | str
Decide = Callable[[RequestPermissionParams], RequestPermissionResult]

TOKEN = "token-of-the-tests"
_numbers = itertools.count(1)


def new_task_id() -> str:
    """Name a task that no other test has."""
    return f"task-{next(_numbers)}"


class Daemon:
    """One connection of a daemon. What happens on it can be waited for with `until`."""

    def __init__(self, *, acknowledge: bool = True, patience: float = PATIENCE) -> None:
        self.acknowledge = acknowledge
        #: Seconds that it waits for anything.
        self.patience = patience
        self.messages: dict[str, list[ReportMessageParams]] = defaultdict(list)
        self.questions: list[RequestPermissionParams] = []
        self.withdrawn: list[RequestPermissionParams] = []
        self.key_requests: list[GetApiKeyParams] = []
        self.keys: dict[str, str] = {}
        #: Where the provider is that takes the keys.
        self.base_url: str | None = None
        #: What to answer to a permission request; none means that nobody answers.
        self.decide: Decide | None = None
        self._news = asyncio.Event()
        self._runs: list[asyncio.Task[TaskResult]] = []
        self._peer: Peer | None = None
        self.routes = Routes()
        self.routes.on_notice(REPORT_MESSAGE, self._report)
        self.routes.on(REQUEST_PERMISSION, self._question)
        self.routes.on(GET_API_KEY, self._key)

    # ── the connection ───────────────────────────────────────────────────────────────────────

    @property
    def peer(self) -> Peer:
        """The connection."""
        assert self._peer is not None, "not connected"
        return self._peer

    async def connect(self, path: Path) -> None:
        """Connect, without a greeting yet."""
        self._peer = await unix.connect(path, self.routes)

    async def greet(self) -> InitializeResult:
        """Say that this is the daemon."""
        params = InitializeParams(
            protocol_version=PROTOCOL_VERSION, daemon_id="daemon-of-the-tests"
        )
        return await self.peer.call(INITIALIZE, params, timeout=self.patience)

    async def close(self) -> None:
        """Hang up; whoever still waits for a result on this connection is told so."""
        if self._peer is not None:
            await self._peer.close()
        await asyncio.gather(*self._runs, return_exceptions=True)

    async def until(self, happened: Callable[[], object]) -> None:
        """Wait until something has happened on this connection."""
        async with asyncio.timeout(self.patience):
            while not happened():
                self._news.clear()
                await self._news.wait()

    async def finished(self, task_id: str) -> int:
        """Wait for a task's last event, and tell its number."""
        messages = self.messages[task_id]
        await self.until(lambda: messages and messages[-1].event_type == "task_result")
        return messages[-1].sequence

    # ── asking ───────────────────────────────────────────────────────────────────────────────

    async def ping(self) -> PingResult:
        """Ask whether it is there."""
        return await self.peer.call(PING, Nothing(), timeout=self.patience)

    async def prompt(self, script: Script, task_id: str | None = None, **more: Any) -> TaskResult:
        """Run a task to its end."""
        params = prompt_params(script, task_id or new_task_id(), **more)
        return await self.peer.call(EXECUTE_PROMPT, params, timeout=self.patience)

    def start(
        self, script: Script, task_id: str | None = None, **more: Any
    ) -> asyncio.Task[TaskResult]:
        """Start a task; awaiting the returned one gives its result. Its name is the task's."""
        task_id = task_id or new_task_id()
        run = asyncio.create_task(self.prompt(script, task_id, **more), name=task_id)
        self._runs.append(run)
        return run

    async def stop(self, task_id: str, token: str = TOKEN, **more: Any) -> StopTaskResult:
        """Stop a task."""
        params = StopTaskParams(session_token=token, task_id=task_id, **more)
        return await self.peer.call(STOP_TASK, params, timeout=self.patience)

    async def shutdown(self, timeout_ms: int) -> ShutdownResult:
        """Tell it to end."""
        params = ShutdownParams(reason="the test is over", timeout_ms=timeout_ms)
        return await self.peer.call(SHUTDOWN, params, timeout=self.patience)

    def ack(self, task_id: str, sequence: int) -> None:
        """Say that events are safe."""
        self.peer.notify(ACK_MESSAGES, AckMessagesParams(task_id=task_id, sequence=sequence))

    def ack_all(self) -> None:
        """Say that everything received is safe, and everything that follows."""
        self.acknowledge = True
        for task_id, messages in self.messages.items():
            self.ack(task_id, messages[-1].sequence)

    # ── what came ────────────────────────────────────────────────────────────────────────────

    def sequences(self, task_id: str) -> list[int]:
        """The numbers of a task's events, in the order they came."""
        return [message.sequence for message in self.messages[task_id]]

    def events(self, task_id: str) -> list[Event]:
        """The events of a task, in the order they came."""
        return [decode_event(m.event_type, m.event_data) for m in self.messages[task_id]]

    def of_kind(self, task_id: str, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events(task_id) if isinstance(event, kind)]

    def text(self, task_id: str) -> str:
        """All deltas of a task put together."""
        return "".join(delta.text for delta in self.of_kind(task_id, BlockDelta))

    def wire_text(self) -> str:
        """Every payload that came, as it was on the wire."""
        return "\n".join(
            bytes(message.event_data).decode()
            for messages in self.messages.values()
            for message in messages
        )

    # ── being asked ──────────────────────────────────────────────────────────────────────────

    def _report(self, message: ReportMessageParams) -> None:
        self.messages[message.task_id].append(message)
        if self.acknowledge:
            self.ack(message.task_id, message.sequence)
        self._news.set()

    async def _question(self, request: RequestPermissionParams) -> RequestPermissionResult:
        self.questions.append(request)
        self._news.set()
        if self.decide is None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.withdrawn.append(request)
                self._news.set()
        assert self.decide is not None
        return self.decide(request)

    def _key(self, request: GetApiKeyParams) -> GetApiKeyResult:
        self.key_requests.append(request)
        self._news.set()
        for name in (request.credential_key, *request.or_else):
            if name in self.keys:
                return GetApiKeyResult(
                    api_key=self.keys[name], base_url=self.base_url, credential_key=name
                )
        raise HandlerFailed(
            f"there is no such credential: {request.credential_key!r}",
            hint=f"add one with `agor credential set {request.credential_key}`",
            code="no_such_credential",
        )


@contextlib.asynccontextmanager
async def daemon(
    path: Path,
    *,
    acknowledge: bool = True,
    greet: bool = True,
    decide: Decide | None = None,
    keys: dict[str, str] | None = None,
    patience: float = PATIENCE,
) -> AsyncIterator[Daemon]:
    """Connect to an executor and greet it; hang up at the end.

    It may be asked something before the greeting is answered, so the answers come first.
    """
    side = Daemon(acknowledge=acknowledge, patience=patience)
    side.decide, side.keys = decide, keys or {}
    try:
        await side.connect(path)
        if greet:
            await side.greet()
        yield side
    finally:
        await side.close()


def prompt_params(script: Script, task_id: str, **more: Any) -> ExecutePromptParams:
    """Make the params of a task for the scripted agent."""
    members: dict[str, Any] = {
        "session_token": TOKEN,
        "session_id": "session-of-the-tests",
        "task_id": task_id,
        "agentic_tool": "scripted",
        "prompt": script if isinstance(script, str) else json.dumps(script),
        "cwd": "/",
    }
    return ExecutePromptParams(**(members | more))


async def soon(work: Awaitable[E]) -> E:
    """Wait, but not for ever."""
    async with asyncio.timeout(PATIENCE):
        return await work
