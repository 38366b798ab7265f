"""An agent's own record of a conversation, as it travels between daemon and executor. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Raw, Struct

from agor.protocol.events import BlockKind


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
