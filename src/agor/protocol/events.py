"""What a task reports while it runs.

A task is told as numbered events. Most of them are about a *block*, a piece of the conversation
with a stable id: it starts, grows by deltas, may be updated, and is completed. The text of a block
is exactly the concatenation of its deltas, whose `index` counts from 0; `block_complete` repeats
their number and the length, so a reader can tell whether it holds all of it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast, get_args

import msgspec
from msgspec import Meta, Raw, Struct

from agor.errors import InvalidParams
from agor.protocol.validation import UNREADABLE, name_the_field, quoted

BlockKind = Literal[
    "user_message", "text", "thinking", "tool_use", "tool_result", "subagent", "system", "error"
]
#: Names are kept in a database: of sane length, and of characters that every database takes.
Name = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^\x00\ud800-\udfff]*$")]
Count = Annotated[int, Meta(ge=0, le=2**53)]
ToolStatus = Literal["awaiting_permission", "running", "denied", "completed", "failed"]


class TokenUsage(Struct, frozen=True, gc=False):
    """Tokens of one task."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Problem(Struct, frozen=True, gc=False, omit_defaults=True):
    """An error as an event or a result tells it."""

    code: str
    message: str
    hint: str | None = None


class BlockStart(Struct, frozen=True, gc=False, omit_defaults=True):
    """A block appears. The tool members belong to tool_use and tool_result."""

    block_id: Name
    kind: BlockKind
    parent_tool_use_id: str | None = None
    tool_use_id: str | None = None
    tool_name: str | None = None
    tool_input: dict[str, Any] | None = None


class BlockDelta(Struct, frozen=True, gc=False):
    """The next piece of a block's text."""

    block_id: str
    index: int
    text: str


class BlockUpdate(Struct, frozen=True, gc=False, omit_defaults=True):
    """A block changes in place; members that are absent stay as they were."""

    block_id: Name
    status: ToolStatus | None = None
    tool_input: dict[str, Any] | None = None
    reason: str | None = None


class BlockComplete(Struct, frozen=True, gc=False, omit_defaults=True):
    """A block is finished: this many deltas, this many characters."""

    block_id: Name
    deltas: Count
    length: Count
    is_error: bool = False


class MetadataUpdate(Struct, frozen=True, gc=False, omit_defaults=True):
    """What became known about the task as a whole."""

    model: str | None = None
    usage: TokenUsage | None = None
    cost: float | None = None
    agent_session_id: Name | None = None


class Status(Struct, frozen=True, gc=False, omit_defaults=True):
    """What the task is doing now, for people who watch."""

    state: Literal["started", "running", "awaiting_permission", "stopping"]
    message: str | None = None


class Log(Struct, frozen=True, gc=False):
    """A remark of the agent or the executor."""

    level: Literal["debug", "info", "warning", "error"]
    message: str


class TaskResult(Struct, frozen=True, gc=False, omit_defaults=True):
    """How the task ended: always its last event, and the result of `execute_prompt`."""

    status: Literal["completed", "failed", "cancelled"]
    message_count: Count
    token_usage: TokenUsage
    agent_session_id: Name | None = None
    cost: float | None = None
    error: Problem | None = None


Event = (
    BlockStart | BlockDelta | BlockUpdate | BlockComplete
    | MetadataUpdate | Status | Log | Problem | TaskResult
)  # fmt: skip

EVENT_FORMS: dict[str, type[Struct]] = {
    "block_start": BlockStart,
    "block_delta": BlockDelta,
    "block_update": BlockUpdate,
    "block_complete": BlockComplete,
    "metadata_update": MetadataUpdate,
    "status": Status,
    "log": Log,
    "error": Problem,
    "task_result": TaskResult,
}
EVENT_TYPES: dict[type[Struct], str] = {form: name for name, form in EVENT_FORMS.items()}
EventType = Literal[
    "block_start", "block_delta", "block_update", "block_complete",
    "metadata_update", "status", "log", "error", "task_result",
]  # fmt: skip
assert set(get_args(EventType)) == set(EVENT_FORMS)

_decoders = {name: msgspec.json.Decoder(form) for name, form in EVENT_FORMS.items()}


def decode_event(event_type: str, data: Raw | bytes) -> Event:
    """Read the payload of a `report_message`."""
    decoder = _decoders.get(event_type)
    if decoder is None:
        raise InvalidParams(f"params.event_type: there is no event {quoted(event_type)}")
    try:
        return cast("Event", decoder.decode(data))
    except UNREADABLE as error:
        raise InvalidParams(name_the_field(error, "params.event_data")) from None
