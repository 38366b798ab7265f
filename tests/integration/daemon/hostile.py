"""An executor that lies: speaks the wire, and says what a test wants it to say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw

from agor.protocol.events import TaskResult, TokenUsage
from agor.protocol.methods import (
    ACK_MESSAGES,
    EXECUTE_PROMPT,
    INITIALIZE,
    PING,
    REPORT_MESSAGE,
    STOP_TASK,
    ExecutePromptParams,
    InitializeResult,
    PingResult,
    ReportMessageParams,
    ShutdownResult,
    StopTaskResult,
)
from agor.rpc import Peer, Routes

Act = Callable[["Hostile", ExecutePromptParams], Awaitable[None]]


class Hostile:
    """One of them. `act` is what it does when it gets a task."""

    def __init__(self, act: Act) -> None:
        self._act = act
        self._peer: Peer | None = None
        self.acknowledged: list[tuple[str, int]] = []

    def make_peer(self) -> Peer:
        routes = Routes()
        routes.on(INITIALIZE, lambda _: self._hello())
        routes.on(PING, lambda _: PingResult(True, 0))
        routes.on(EXECUTE_PROMPT, self._execute)
        routes.on(STOP_TASK, lambda _: StopTaskResult(stopped=True))
        routes.on_notice(
            ACK_MESSAGES, lambda ack: self.acknowledged.append((ack.task_id, ack.sequence))
        )
        self._peer = Peer(routes)
        return self._peer

    @property
    def peer(self) -> Peer:
        assert self._peer is not None
        return self._peer

    def _hello(self) -> InitializeResult:
        return InitializeResult(
            protocol_version="1.0", executor_id="?", pid=1, unix_user="?", agents=[],
            capabilities=[], tasks=[],
        )  # fmt: skip

    async def _execute(self, params: ExecutePromptParams) -> TaskResult:
        await self._act(self, params)
        # It never ends by itself.
        await asyncio.Event().wait()
        raise AssertionError

    async def shut_down(self, reason: str, timeout: float) -> ShutdownResult:
        return ShutdownResult(status="idle")

    def report(
        self, params: ExecutePromptParams, sequence: int, data: Any = None, **changes: Any
    ) -> None:
        """Report an event, with whatever is to be wrong about it."""
        members: dict[str, Any] = {
            "session_token": params.session_token,
            "task_id": params.task_id,
            "sequence": sequence,
            "timestamp": 0,
            "event_type": "log",
            "event_data": Raw(
                msgspec.json.encode(data or {"level": "info", "message": str(sequence)})
            ),
        } | changes
        self.peer.notify(REPORT_MESSAGE, ReportMessageParams(**members))

    def end(self, params: ExecutePromptParams, sequence: int) -> None:
        """Report the end of the task."""
        result = TaskResult("completed", 0, TokenUsage())
        self.report(
            params, sequence, event_type="task_result",
            event_data=Raw(msgspec.json.encode(result)),
        )  # fmt: skip
