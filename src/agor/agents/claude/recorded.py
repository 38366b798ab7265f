"""Tells the lines of Claude's record as the blocks that were told live.

Lines of other kinds than messages are Claude's own notes. Of messages, those are left out that it
wrote itself: errors in the model's name, reminders in the user's, news of background work. A
sub-agent's blocks are put between those of the conversation by their time; while both speak at
once, which came first is not certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from agor.agents.claude.content import COMPACTED, SYNTHETIC, text_of_result
from agor.protocol.transcripts import Transcript, TranscriptBlock
from agor.protocol.validation import UNREADABLE

_META = ".meta.json"
#: A command of Claude Code's own, such as /context, and what it printed.
_COMMAND = re.compile(
    r"<command-name>(.*?)</command-name>.*<command-args>(.*?)</command-args>", re.DOTALL
)
#: Words in the user's name that are Claude Code's.
_NOT_THEIRS = ("<", "[Request interrupted by user")
_PRINTED = re.compile(r"<local-command-(stdout|stderr)>(.*)</local-command-\1>", re.DOTALL)


class _Message(Struct, frozen=True):
    content: str | list[dict[str, Any]] = ""
    model: str | None = None


class _Line(Struct, rename="camel"):
    """What is needed of a line of any kind."""

    type: str = ""
    subtype: str | None = None
    timestamp: str = ""
    message: _Message = _Message()
    content: str | list[Any] | None = None
    is_meta: bool = False
    is_compact_summary: bool = False
    prompt_source: str | None = None
    origin: dict[str, Any] | None = None


class _Told(NamedTuple):
    at: str
    block: TranscriptBlock


def blocks_of(record: Transcript) -> list[TranscriptBlock]:
    """Tell a whole record."""
    told = list(_tell(record.main, None))
    parents = _parents(record)
    for each in record.subagents:
        if not each.name.endswith(_META):
            told += _tell(each.lines, parents.get(each.name.removesuffix(".jsonl")))
    # A stable order: whoever is at the same time stays behind who came first here.
    blocks = [each.block for each in sorted(told, key=lambda each: each.at)]
    failed = {
        block.tool_use_id for block in blocks if block.kind == "tool_result" and block.is_error
    }
    return [
        replace(block, is_error=block.tool_use_id in failed) if block.kind == "tool_use" else block
        for block in blocks
    ]


def _parents(record: Transcript) -> dict[str, str]:
    """Find which tool call started which sub-agent."""
    found = {}
    for each in record.subagents:
        if each.name.endswith(_META) and each.lines:
            meta = msgspec.json.decode(each.lines[0])
            found[each.name.removesuffix(_META)] = meta.get("toolUseId")
    return found


def _tell(lines: Iterable[Raw], parent: str | None) -> Iterator[_Told]:
    # The order of the lines counts, even where their times do not keep to it.
    latest = ""
    for raw in lines:
        try:
            line = msgspec.json.decode(raw, type=_Line)
        except UNREADABLE:
            continue
        latest = max(latest, line.timestamp)
        for block in _blocks_of_line(line, parent):
            yield _Told(latest, block)


def _blocks_of_line(line: _Line, parent: str | None) -> Iterator[TranscriptBlock]:
    match line.type:
        case "assistant" if line.message.model != SYNTHETIC:
            for part in _parts(line.message):
                yield from _said(part, parent)
        case "user":
            yield from _from_user(line, parent)
        case "system" if line.subtype == "compact_boundary" and parent is None:
            yield TranscriptBlock(kind="system", text=COMPACTED)
        case "system" if line.subtype == "local_command":
            if printed := _PRINTED.fullmatch(str(line.content)):
                yield TranscriptBlock(kind="system", text=printed[2].strip())


def _said(part: Mapping[str, Any], parent: str | None) -> Iterator[TranscriptBlock]:
    kind = part.get("type")
    if kind == "text" or kind == "thinking":
        if text := str(part.get(kind) or ""):
            yield TranscriptBlock(kind=kind, text=text, parent_tool_use_id=parent)
    elif kind == "tool_use":
        yield TranscriptBlock(
            kind="tool_use",
            parent_tool_use_id=parent,
            tool_use_id=part.get("id"),
            tool_name=part.get("name"),
            tool_input=part.get("input"),
        )


def _from_user(line: _Line, parent: str | None) -> Iterator[TranscriptBlock]:
    prompt: list[str] = []
    for part in _parts(line.message):
        if part.get("type") == "tool_result":
            yield TranscriptBlock(
                kind="tool_result",
                parent_tool_use_id=parent,
                tool_use_id=part.get("tool_use_id"),
                text=text_of_result(part.get("content")),
                is_error=bool(part.get("is_error")),
            )
        elif part.get("type") == "text":
            prompt.append(str(part.get("text")))
    text = "\n".join(prompt)
    if command := _COMMAND.fullmatch(text):
        yield TranscriptBlock(kind="user_message", text=f"{command[1]} {command[2]}".strip())
    elif prompt and parent is None and _is_prompt(line, text):
        yield TranscriptBlock(kind="user_message", text=text)


def _is_prompt(line: _Line, text: str) -> bool:
    if line.is_meta or line.is_compact_summary or line.prompt_source == "system":
        return False
    if line.prompt_source is None and text.startswith(_NOT_THEIRS):
        return False
    return line.origin is None or line.origin.get("kind") == "human"


def _parts(message: _Message) -> list[dict[str, Any]]:
    if isinstance(message.content, str):
        return [{"type": "text", "text": message.content}]
    return message.content
