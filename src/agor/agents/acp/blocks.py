"""From the updates of an ACP agent to the blocks of a conversation. Pure.

The same steps come out whether the updates are told live or replayed from the agent's record, so
both make the same blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from agor.agents.acp.calls import Call, content_text, plain_input, plain_name, plain_result
from agor.errors import AgentFailed
from agor.protocol.events import BlockKind, ToolStatus

if TYPE_CHECKING:
    from acp.schema import ToolCall, ToolCallUpdate

#: Tool calls that are under way at once.
_MOST_CALLS = 1000
_CHUNKS: dict[str, BlockKind] = {
    "user_message_chunk": "user_message",
    "agent_message_chunk": "text",
    "agent_thought_chunk": "thinking",
}
_MARKS = {"completed": "x", "in_progress": "~"}


class Start(Struct, frozen=True):
    """A block begins; `members` are those of `BlockStart`."""

    key: str
    kind: BlockKind
    members: dict[str, Any]


class Add(Struct, frozen=True):
    """The text of a block goes on."""

    key: str
    text: str


class Change(Struct, frozen=True):
    """A tool call stands otherwise, or its input has become known."""

    key: str
    status: ToolStatus
    tool_input: dict[str, Any] | None = None


class End(Struct, frozen=True):
    """A block is complete."""

    key: str
    is_error: bool = False


Step = Start | Add | Change | End


class Naming(Struct, frozen=True):
    """How tool calls are told: what a known agent does in its own way."""

    name: Callable[[Call], str] = plain_name
    input: Callable[[Call], dict[str, Any]] = plain_input
    result: Callable[[Call], str] = plain_result
    #: What to tell of a piece of thinking or text; nothing, if it is neither.
    thought: Callable[[str], str] = str
    message: Callable[[str], str] = str
    #: Whether a question tells of its call in the same words as the updates do.
    question_tells: bool = True


class Blocks:
    """Turns updates into steps, one after the other."""

    def __init__(self, naming: Naming, *, replayed: bool = False) -> None:
        self._naming = naming
        #: What the user said is the daemon's to tell live, and the agent's when replayed.
        self._replayed = replayed
        #: The block whose text goes on: its key, kind, message and parent.
        self._open: tuple[str, BlockKind, str | None, str | None] | None = None
        self.calls: dict[str, Call] = {}
        self._told_input: dict[str, dict[str, Any]] = {}
        self._number = 0

    def take(self, update: Any) -> Iterator[Step]:
        """Tell what an update means."""
        kind = update.session_update
        if kind in _CHUNKS:
            yield from self._chunk(_CHUNKS[kind], update)
        elif kind in ("tool_call", "tool_call_update"):
            yield from self.call(update)
        elif kind == "plan":
            yield from self._plan(update)

    def call(self, update: ToolCall | ToolCallUpdate) -> Iterator[Step]:
        """Tell what is new about a tool call; ended, it is told with its result."""
        key = update.tool_call_id
        call = self.calls.get(key)
        if call is None:
            if len(self.calls) >= _MOST_CALLS:
                raise AgentFailed(f"the agent has more than {_MOST_CALLS} tool calls under way")
            call = self.calls[key] = Call(key)
            call.merge(update)
            yield from self._begin(call)
        else:
            call.merge(update)
            tool_input = self._naming.input(call)
            if tool_input != self._told_input[key] and not call.denied:
                self._told_input[key] = tool_input
                yield Change(key, "running", tool_input)
        if call.ended:
            yield from self.end(call)

    def end(self, call: Call, result: str | None = None) -> Iterator[Step]:
        """Tell the end of a tool call, and its result."""
        if self.calls.pop(call.call_id, None) is None:
            return
        del self._told_input[call.call_id]
        failed = call.denied or call.status == "failed"
        if not call.denied:
            yield Change(call.call_id, "failed" if failed else "completed")
        yield End(call.call_id)
        text = self._naming.result(call) if result is None else result
        if call.denied and not text:
            return
        yield from self._close()
        key = self._next_key()
        members = {"tool_use_id": call.call_id, "parent_tool_use_id": _parent(call.meta)}
        yield Start(key, "tool_result", members)
        yield Add(key, text)
        yield End(key, is_error=failed)

    def finish(self) -> Iterator[Step]:
        """Tell that nothing comes any more: what is open is over."""
        for call in list(self.calls.values()):
            del self.calls[call.call_id], self._told_input[call.call_id]
            if not call.denied:
                yield Change(call.call_id, "failed")
            yield End(call.call_id)
        yield from self._close()

    def _begin(self, call: Call) -> Iterator[Step]:
        yield from self._close()
        tool_input = self._told_input[call.call_id] = self._naming.input(call)
        members = {
            "tool_use_id": call.call_id,
            "tool_name": self._naming.name(call),
            "tool_input": tool_input,
            "parent_tool_use_id": _parent(call.meta),
        }
        yield Start(call.call_id, "tool_use", members)
        if call.status == "in_progress":
            yield Change(call.call_id, "running")

    def _chunk(self, kind: BlockKind, update: Any) -> Iterator[Step]:
        if kind == "user_message" and not self._replayed:
            return
        text = content_text(update.content)
        if kind != "user_message":
            naming = self._naming
            text = naming.thought(text) if kind == "thinking" else naming.message(text)
        if not text:
            return
        parent = _parent(update.field_meta or {})
        place = (kind, update.message_id, parent)
        if self._open is None or self._open[1:] != place:
            yield from self._close()
            self._open = (self._next_key(), *place)
            yield Start(self._open[0], kind, {"parent_tool_use_id": parent})
        yield Add(self._open[0], text)

    def _plan(self, update: Any) -> Iterator[Step]:
        lines = [f"- [{_MARKS.get(entry.status, ' ')}] {entry.content}" for entry in update.entries]
        if not lines:
            return
        yield from self._close()
        key = self._next_key()
        yield Start(key, "system", {})
        yield Add(key, "\n".join(lines))
        yield End(key)

    def _close(self) -> Iterator[Step]:
        if self._open is not None:
            key, self._open = self._open[0], None
            yield End(key)

    def _next_key(self) -> str:
        self._number += 1
        # A number alone might be the id of a tool call.
        return f"\0{self._number}"


def _parent(meta: dict[str, Any]) -> str | None:
    """Find the tool call whose sub-agent this is about, where the agent notes it."""
    for notes in meta.values():
        if isinstance(notes, dict) and isinstance(name := notes.get("parentToolUseId"), str):
            return name or None
    return None
