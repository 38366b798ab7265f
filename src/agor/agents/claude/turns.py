"""One turn of Claude's: each message in its place, until nothing is left to do.

A turn does not end with its result. Sub-agents may still work in the background, and what they
find wakes Claude for more; only then does it say that it is idle. And there may be news of the time
between two prompts, with results that belong to no prompt. So a turn ends when Claude is idle
after it took up the prompt and told a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    Message,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    UserMessage,
)

from agor.agents.claude.calls import Calls
from agor.agents.claude.content import COMPACTED
from agor.agents.claude.faults import fault_of_result, fault_of_retry, retry_in_words
from agor.agents.claude.telling import Telling
from agor.agents.turn import Turn
from agor.errors import AgorError
from agor.protocol.events import Log, MetadataUpdate, TokenUsage


class ClaudeTurn:
    """What becomes of one prompt."""

    def __init__(self, turn: Turn, own: str, calls: Calls, credential: str) -> None:
        self._turn = turn
        self._own = own
        self._credential = credential
        self._telling = Telling(turn, calls)
        self._taken_up = False
        self._results = 0
        #: Commands and others that run on in the background.
        self._background = 0
        #: The mode that Claude is in, if it told.
        self.mode: str | None = None
        #: Whether it is to end: then a result that says so is no fault.
        self.interrupted = False
        #: Why there is no use in going on, if Claude itself would.
        self.hopeless: AgorError | None = None
        #: Why it failed, by Claude's own result.
        self.fault: AgorError | None = None
        #: Whether nothing is left to do.
        self.over = False

    async def take(self, message: Message) -> None:
        """Do what a message means."""
        if isinstance(message, StreamEvent):
            await self._telling.stream(message)
        elif isinstance(message, AssistantMessage):
            await self._telling.whole(message)
        elif isinstance(message, UserMessage):
            self._taken_up = self._taken_up or message.uuid == self._own
            await self._telling.results(message)
        elif isinstance(message, ResultMessage):
            await self._result(message)
        elif isinstance(message, SystemMessage):
            await self._system(message.subtype, message.data)

    async def close(self) -> None:
        """Complete what was left half said."""
        await self._telling.close()

    async def _result(self, result: ResultMessage) -> None:
        await self._telling.close()
        await self._count(result)
        self._results += 1
        if result.origin is None or result.origin["kind"] == "human":
            self._taken_up = True
        if self.interrupted:
            self.over = True
        else:
            self.fault = self.fault or fault_of_result(result, self._credential)

    async def _count(self, result: ResultMessage) -> None:
        """Add what was used since the last result, by sub-agents as well."""
        shares = [_Share(share) for share in (result.model_usage or {}).values()]
        usage, turn = self._turn.usage, self._turn
        turn.usage = TokenUsage(
            input=usage.input + sum(share.tokens("inputTokens") for share in shares),
            output=usage.output + sum(share.tokens("outputTokens") for share in shares),
            cache_read=usage.cache_read + sum(s.tokens("cacheReadInputTokens") for s in shares),
            cache_write=usage.cache_write
            + sum(s.tokens("cacheCreationInputTokens") for s in shares),
        )
        turn.cost = (turn.cost or 0.0) + sum(share.cost for share in shares)
        await turn.tell(MetadataUpdate(usage=turn.usage, cost=turn.cost))

    async def _system(self, subtype: str, data: Mapping[str, Any]) -> None:
        match subtype:
            case "init":
                await self._init(data)
            case "session_state_changed":
                if data.get("state") == "idle" and self._taken_up and self._results > 0:
                    await self._end()
            case "background_tasks_changed":
                self._background = len(data.get("tasks") or [])
            case "api_retry":
                self.hopeless = self.hopeless or fault_of_retry(data, self._credential)
                await self._turn.tell(Log("warning", retry_in_words(data)))
            case "status" if "permissionMode" in data:
                self.mode = data["permissionMode"]
            case "compact_boundary":
                await self._telling.say("system", COMPACTED)

    async def _end(self) -> None:
        self.over = True
        if self._background:
            words = f"{self._background} left in the background, until Claude's program ends"
            await self._turn.tell(Log("info", words))

    async def _init(self, data: Mapping[str, Any]) -> None:
        self.mode = data.get("permissionMode") or self.mode
        self._turn.agent_session_id = data["session_id"]
        await self._turn.tell(
            MetadataUpdate(model=data.get("model"), agent_session_id=data["session_id"])
        )


class _Share:
    """What was used of one model."""

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._members = members
        self.cost = float(members.get("costUSD") or 0.0)

    def tokens(self, name: str) -> int:
        return int(self._members.get(name) or 0)
