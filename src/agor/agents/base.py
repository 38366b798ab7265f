"""What every agent is given and must do.

An agent runs one *turn*: it gets the prompt and a `Turn`, through which it tells what happens,
asks for permission and fetches keys. It knows nothing of connections, sequences or the daemon.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from agor.protocol.events import (
    BlockComplete,
    BlockDelta,
    BlockKind,
    BlockStart,
    BlockUpdate,
    Event,
    TokenUsage,
    ToolStatus,
)
from agor.protocol.methods import (
    AgentInfo,
    ExecutePromptParams,
    GetApiKeyResult,
    RequestPermissionResult,
)

#: Characters of one delta at most. A longer text is told in several, so no event nears the cap.
MAX_DELTA = 64 * 1024
#: Characters kept back without streaming; more are told, so that memory does not grow with them.
_MAX_KEPT = 1024 * 1024

Tell = Callable[[Event], Awaitable[None]]
Ask = Callable[[str, dict[str, Any], str | None], Awaitable[RequestPermissionResult]]
FetchKey = Callable[[str], Awaitable[GetApiKeyResult]]


class Turn:
    """One prompt being worked on, as its agent sees it."""

    def __init__(
        self,
        params: ExecutePromptParams,
        tell: Tell,
        ask: Ask,
        fetch_key: FetchKey,
        max_delta: int = MAX_DELTA,
    ) -> None:
        self.params = params
        self.max_delta = max_delta
        #: Report an event; waits while the daemon is behind.
        self.tell = tell
        #: Ask a person whether a tool may run: name, input, tool_use_id.
        self.ask = ask
        #: Fetch a credential by its name, when it is needed and not before.
        self.fetch_key = fetch_key
        self.usage = TokenUsage()
        self.cost: float | None = None
        self.agent_session_id: str | None = None
        self.blocks = 0
        self._numbers = itertools.count(1)

    async def start_block(self, kind: BlockKind, **members: Any) -> Block:
        """Begin a block of the conversation."""
        block_id = f"{self.params.task_id}-b{next(self._numbers)}"
        self.blocks += 1
        await self.tell(BlockStart(block_id=block_id, kind=kind, **members))
        return Block(self, block_id)


class Block:
    """A block that is being told: its text grows by deltas until it is completed."""

    def __init__(self, turn: Turn, block_id: str) -> None:
        self._turn = turn
        self._stream = turn.params.stream
        self._max_delta = turn.max_delta
        self.block_id = block_id
        self._deltas = 0
        self._length = 0
        self._kept: list[str] = []
        self._kept_size = 0

    def add(self, text: str) -> Awaitable[None]:
        """Tell the next piece of the text; without streaming it is kept, within bounds."""
        if self._stream and 0 < len(text) <= self._max_delta:
            # Nearly every event there is comes along here: no step more than it needs.
            delta = BlockDelta(self.block_id, self._deltas, text)
            self._deltas += 1
            self._length += len(text)
            return self._turn.tell(delta)
        return self._tell(text) if self._stream else self._keep(text)

    async def _keep(self, text: str) -> None:
        self._kept.append(text)
        self._kept_size += len(text)
        if self._kept_size > _MAX_KEPT:
            await self._tell_kept()

    async def update(
        self,
        status: ToolStatus,
        *,
        reason: str | None = None,
        tool_input: dict[str, Any] | None = None,
    ) -> None:
        """Tell how a tool call stands."""
        await self._turn.tell(BlockUpdate(self.block_id, status, tool_input, reason))

    async def complete(self, *, is_error: bool = False) -> None:
        """Tell that this was all."""
        await self._tell_kept()
        await self._turn.tell(BlockComplete(self.block_id, self._deltas, self._length, is_error))

    async def _tell_kept(self) -> None:
        text, self._kept, self._kept_size = "".join(self._kept), [], 0
        await self._tell(text)

    async def _tell(self, text: str) -> None:
        size = self._max_delta
        for start in range(0, len(text), size):
            piece = text[start : start + size]
            await self._turn.tell(BlockDelta(self.block_id, self._deltas, piece))
            self._deltas += 1
            self._length += len(piece)


class Agent(ABC):
    """One kind of coding agent."""

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def describe(cls) -> AgentInfo:
        """Tell whether it can be used here, in which version, and if not, why."""

    @abstractmethod
    async def run(self, turn: Turn) -> None:
        """Work on the turn's prompt until it is done.

        Raise `AgorError` to fail with a message for people. When cancelled, end every process
        started for the turn before letting the cancellation through.
        """
