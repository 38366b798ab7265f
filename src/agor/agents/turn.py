"""One prompt being worked on, as its agent sees it: what it tells, asks and fetches."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec

from agor.agents.mcp import resolve
from agor.protocol.events import (
    BlockComplete,
    BlockDelta,
    BlockKind,
    BlockStart,
    BlockUpdate,
    Event,
    Status,
    TokenUsage,
    ToolStatus,
)
from agor.protocol.mcp import McpServer
from agor.protocol.methods import (
    ExecutePromptParams,
    GetApiKeyResult,
    RequestPermissionResult,
)

#: Characters of one delta at most. A longer text is told in several, so no event nears the cap.
MAX_DELTA = 256 * 1024
#: Characters that never have too many bytes, and the bytes that a delta of more may have as JSON.
#: Many clients take no WebSocket message over 1 MiB.
_ALWAYS_FITS = 64 * 1024
_MAX_BYTES = 512 * 1024
#: Characters kept back without streaming; more are told, so that memory does not grow with them.
_MAX_KEPT = 1024 * 1024

_encode = msgspec.json.Encoder().encode

Tell = Callable[[Event], Awaitable[None]]
Ask = Callable[[str, dict[str, Any], str | None], Awaitable[RequestPermissionResult]]
#: The name of a credential, and others that would do as well.
FetchKey = Callable[..., Awaitable[GetApiKeyResult]]


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
        #: Fetch a credential by its name, or the first there is of several, when it is needed and
        #: not before.
        self.fetch_key = fetch_key
        self.usage = TokenUsage()
        self.cost: float | None = None
        self.agent_session_id: str | None = None
        #: Whether the agent itself has ended the turn, be it that it failed: its program then waits
        #: for the next prompt.
        self.over = False
        self.blocks = 0
        self._numbers = itertools.count(1)

    async def start_block(self, kind: BlockKind, **members: Any) -> Block:
        """Begin a block of the conversation."""
        block_id = f"{self.params.task_id}-b{next(self._numbers)}"
        self.blocks += 1
        await self.tell(BlockStart(block_id=block_id, kind=kind, **members))
        return Block(self, block_id)

    async def permit(
        self, use: Block, tool_name: str, tool_input: dict[str, Any], tool_use_id: str | None
    ) -> RequestPermissionResult:
        """Get the word on a tool call whose block has begun, and tell how it stands meanwhile.

        The daemon decides by the task's mode and by rules, or asks a person. A prompt that names
        its tools may use no other.
        """
        allowed = self.params.tools
        if allowed and tool_name not in allowed:
            reason = f"this prompt may use only: {', '.join(allowed)}"
            await use.update("denied", reason=reason)
            return RequestPermissionResult(approved=False, reason=reason)
        await use.update("awaiting_permission")
        await self.tell(Status("awaiting_permission"))
        decision = await self.ask(tool_name, tool_input, tool_use_id)
        await self.tell(Status("running"))
        if decision.approved:
            await use.update("running", tool_input=decision.updated_input)
        else:
            await use.update("denied", reason=decision.reason)
        return decision

    async def mcp_servers(self) -> dict[str, McpServer]:
        """Give the tool servers of this prompt, with the credentials that they name put in."""
        return await resolve(self.params.mcp_servers, self.fetch_key)


class Block:
    """A block that is being told: its text grows by deltas until it is completed."""

    def __init__(self, turn: Turn, block_id: str) -> None:
        self._turn = turn
        self._stream = turn.params.stream
        self._max_delta = turn.max_delta
        self._at_once = min(turn.max_delta, _ALWAYS_FITS)
        self.block_id = block_id
        self._deltas = 0
        self._length = 0
        self._kept: list[str] = []
        self._kept_size = 0

    def add(self, text: str) -> Awaitable[None]:
        """Tell the next piece of the text; without streaming it is kept, within bounds."""
        if self._stream and 0 < len(text) <= self._at_once:
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
            for piece in _fitting(text[start : start + size]):
                await self._turn.tell(BlockDelta(self.block_id, self._deltas, piece))
                self._deltas += 1
                self._length += len(piece)


def _fitting(text: str) -> Iterator[str]:
    """Cut a text in halves until each piece has few enough bytes as JSON."""
    if len(text) <= _ALWAYS_FITS or len(_encode(text)) <= _MAX_BYTES:
        yield text
    else:
        middle = len(text) // 2
        yield from _fitting(text[:middle])
        yield from _fitting(text[middle:])
