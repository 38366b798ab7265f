"""Tells Claude's messages as blocks.

Claude's own words come twice: as events of the model's stream, piece by piece, and as a whole
message after each piece of content. Texts and thoughts are told from the stream; tool calls from
the message, once their input is complete. Sub-agents are not streamed: theirs come as a whole.
"""

from __future__ import annotations

from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ContentBlock,
    StreamEvent,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from agor.agents.claude.calls import Call, Calls
from agor.agents.claude.content import NOTHING, SYNTHETIC, text_of_result
from agor.agents.turn import Block, Turn
from agor.protocol.events import BlockKind

_DELTAS: dict[str, tuple[BlockKind, str]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
}


class Telling:
    """Tells the messages of one turn."""

    def __init__(self, turn: Turn, calls: Calls) -> None:
        self._turn = turn
        self._calls = calls
        #: The message that is being streamed, and the block that grows.
        self._streamed: str | None = None
        self._growing: Block | None = None

    async def stream(self, message: StreamEvent) -> None:
        """Tell the next piece of what the model says."""
        event = message.event
        if message.parent_tool_use_id is not None:
            return
        match event.get("type"):
            case "content_block_delta":
                await self._grow(event["delta"])
            case "content_block_stop":
                await self._complete()
            case "message_start":
                # Whatever was being said was cut off, and is said again.
                await self._complete(is_error=True)
                self._streamed = event["message"].get("id")

    async def whole(self, message: AssistantMessage) -> None:
        """Tell what of a message was not told before."""
        if message.model == SYNTHETIC:
            await self._output(message)
            return
        parent = message.parent_tool_use_id
        told = parent is None and message.message_id == self._streamed
        for part in message.content:
            if isinstance(part, ToolUseBlock):
                await self._call(part, parent)
            elif not told:
                await self._say(part, parent)

    async def results(self, message: UserMessage) -> None:
        """Tell what tools answered."""
        if isinstance(message.content, str):
            return
        for part in message.content:
            if isinstance(part, ToolResultBlock):
                await self._result(part, message.parent_tool_use_id)

    async def say(self, kind: BlockKind, text: str, parent: str | None = None) -> None:
        """Tell a block whose text is there as a whole."""
        if text:
            block = await self._turn.start_block(kind, parent_tool_use_id=parent)
            await block.add(text)
            await block.complete()

    async def close(self) -> None:
        """Complete what was left half said."""
        await self._complete(is_error=True)

    async def _grow(self, delta: dict[str, Any]) -> None:
        kind, member = _DELTAS.get(delta.get("type", ""), (None, ""))
        if kind is None or not (text := delta.get(member)):
            return
        if self._growing is None:
            self._growing = await self._turn.start_block(kind)
        await self._growing.add(text)

    async def _complete(self, *, is_error: bool = False) -> None:
        growing, self._growing = self._growing, None
        if growing is not None:
            await growing.complete(is_error=is_error)

    async def _say(self, part: ContentBlock, parent: str | None) -> None:
        if isinstance(part, TextBlock):
            await self.say("text", part.text, parent)
        elif isinstance(part, ThinkingBlock):
            await self.say("thinking", part.thinking, parent)

    async def _output(self, message: AssistantMessage) -> None:
        """Tell what a command of Claude Code's own printed; an error comes with the result."""
        for part in message.content:
            if isinstance(part, TextBlock) and message.error is None and part.text != NOTHING:
                await self.say("system", part.text.strip())

    async def _call(self, part: ToolUseBlock, parent: str | None) -> None:
        if self._calls.has(part.id):
            # Somebody had to decide on it before it got here.
            return
        block = await self._turn.start_block(
            "tool_use",
            parent_tool_use_id=parent,
            tool_use_id=part.id,
            tool_name=part.name,
            tool_input=part.input,
        )
        await self._calls.begin(part.id, Call(block, part.name))

    async def _result(self, part: ToolResultBlock, parent: str | None) -> None:
        is_error = bool(part.is_error)
        call, denied = self._calls.end(part.tool_use_id)
        if call is not None:
            if not denied:
                await call.block.update("failed" if is_error else "completed")
            await call.block.complete(is_error=is_error)
        block = await self._turn.start_block(
            "tool_result", parent_tool_use_id=parent, tool_use_id=part.tool_use_id
        )
        await block.add(text_of_result(part.content))
        await block.complete(is_error=is_error)
