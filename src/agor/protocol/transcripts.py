"""An agent's own record of a conversation, as it travels between daemon and executor. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from agor.protocol.events import BlockKind
from agor.protocol.forms import Form, Identifier

TranscriptForm = Literal["lines", "blocks"]


class SubagentTranscript(Struct, frozen=True):
    """Lines of a sub-agent's record, under the name that the agent has for it."""

    name: str
    lines: list[Raw]


class Transcript(Struct, frozen=True):
    """A record, or a part of one: lines of the conversation itself, and of its sub-agents."""

    main: list[Raw] = []
    subagents: list[SubagentTranscript] = []

    def __repr__(self) -> str:
        # It is everything that was ever said.
        return f"Transcript({len(self.main)} lines, {len(self.subagents)} sub-agents)"


class TranscriptBlock(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A block as a record tells it: what a `Message` has, but for its place in the feed."""

    kind: BlockKind
    text: str = ""
    parent_tool_use_id: str | None = None
    tool_use_id: str | None = None
    tool_name: str | None = None
    tool_input: dict[str, Any] | None = None
    is_error: bool = False


class PrepareSessionParams(Form):
    """Put the record of a conversation where its agent looks for it, before the next prompt.

    A long one comes in parts, in order; all but the last say that there is more.
    """

    session_id: Identifier
    agentic_tool: Identifier
    agent_session_id: Identifier
    workspace: Annotated[str, Meta(min_length=1)]
    transcript: Transcript
    #: Its number, from 0. The first one begins anew, whatever came before it.
    part: Annotated[int, Meta(ge=0, le=2**31)] = 0
    more: bool = False


class PrepareSessionResult(Form):
    """Whether the session can take a prompt that resumes the conversation."""

    ready: bool


class ReadTranscriptParams(Form):
    """Which conversation to read back, and from where: a `cursor` that was given before.

    With `wait_ms`, an answer with nothing new in it is held back for so long.
    """

    session_id: Identifier
    agentic_tool: Identifier
    agent_session_id: Identifier
    workspace: Annotated[str, Meta(min_length=1)]
    form: TranscriptForm = "lines"
    cursor: Annotated[str, Meta(max_length=10_000)] | None = None
    wait_ms: Annotated[int, Meta(ge=0, le=60_000)] = 0


class ReadTranscriptResult(Form):
    """As much of the agent's own record as fits a message; `more` says whether there is more now.

    `blocks` has the same as blocks, if that form was asked for.
    """

    transcript: Transcript
    cursor: str
    blocks: list[TranscriptBlock] = []
    more: bool = False


def joined(parts: Iterable[Transcript]) -> Transcript:
    """Put the parts of a record together, in their order."""
    main: list[Raw] = []
    subagents: dict[str, list[Raw]] = {}
    for part in parts:
        main += part.main
        for each in part.subagents:
            subagents.setdefault(each.name, []).extend(each.lines)
    return Transcript(main, [SubagentTranscript(*each) for each in subagents.items()])


def parts_of(record: Transcript, most: int) -> Iterator[Transcript]:
    """Cut a record into parts of so many bytes at most, or of one line; there is always one."""
    part, size = Transcript([], []), 0
    lines = [("", line) for line in record.main]
    lines += [(each.name, line) for each in record.subagents for line in each.lines]
    for name, line in lines:
        if size and size + len(line) > most:
            yield joined([part])
            part, size = Transcript([], []), 0
        size += len(line)
        if name:
            part.subagents.append(SubagentTranscript(name, [line]))
        else:
            part.main.append(line)
    yield joined([part])
