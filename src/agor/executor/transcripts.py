"""Reads agents' own records of conversations back, and puts them where a conversation shall go on.

A record may be larger than a message: it is read and restored in parts. Where a reader is, is a
cursor: how many lines it has of the conversation and of each sub-agent. So it can also follow a
record that grows.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Iterator
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Raw

from agor.agents.registry import find_agent
from agor.agents.transcripts import Transcripts
from agor.errors import InvalidParams, NoTranscript, Overloaded
from agor.protocol.transcripts import (
    PrepareSessionParams,
    PrepareSessionResult,
    ReadTranscriptParams,
    ReadTranscriptResult,
    SubagentTranscript,
    Transcript,
    TranscriptBlock,
    joined,
)
from agor.protocol.validation import UNREADABLE

#: Bytes of all that is being restored, in parts.
MOST_RESTORED = 256 * 1024 * 1024
#: Seconds between two looks at a record that somebody waits for.
_LOOK = 0.1
#: The name of the conversation itself, beside those of its sub-agents; none of them has it.
_MAIN = ""

T = TypeVar("T")
Cursor = dict[str, Annotated[int, Meta(ge=0)]]


class TranscriptDesk:
    """Answers `read_transcript` and `prepare_session`."""

    def __init__(self, max_line: int) -> None:
        #: Half of a message: the other half is for what JSON puts around it.
        self._part = max_line // 2
        self._arrived: dict[str, list[Transcript]] = {}

    async def read(self, params: ReadTranscriptParams) -> ReadTranscriptResult:
        """Give the next part of a record."""
        records = _records_of(params.agentic_tool)
        if params.form == "blocks":
            return await self._read_blocks(records, params)
        cursor = _read_cursor(params.cursor)
        until = time.monotonic() + params.wait_ms / 1000
        while True:
            stamp = _stamp(records, params)
            record = await records.read(params.agent_session_id, params.workspace)
            part, position, more = self._next_part(record, cursor)
            if position != cursor or time.monotonic() >= until:
                return ReadTranscriptResult(
                    transcript=part, cursor=_write_cursor(position), more=more
                )
            # A file tells nobody that it has changed, but for what is Linux-only.
            while _stamp(records, params) == stamp and time.monotonic() < until:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK)

    async def _read_blocks(
        self, records: Transcripts, params: ReadTranscriptParams
    ) -> ReadTranscriptResult:
        record = await records.read(params.agent_session_id, params.workspace)
        given = _read_cursor(params.cursor).get(_MAIN, 0)
        blocks = records.blocks(record)[given:]
        part = list(_fitting(blocks, self._part, _size_of))
        position = {_MAIN: given + len(part)}
        return ReadTranscriptResult(
            transcript=Transcript(),
            blocks=part,
            cursor=_write_cursor(position),
            more=len(part) < len(blocks),
        )

    def _next_part(self, record: Transcript, cursor: Cursor) -> tuple[Transcript, Cursor, bool]:
        """Take what comes after a cursor, as much as fits."""
        position, room, more = dict(cursor), self._part, False
        taken: dict[str, list[Raw]] = {}
        named = [(_MAIN, record.main), *((each.name, each.lines) for each in record.subagents)]
        for name, lines in named:
            rest = lines[cursor.get(name, 0) :]
            part = list(_fitting(rest, room, len)) if room > 0 else []
            room -= sum(map(len, part))
            more = more or len(part) < len(rest)
            if part:
                taken[name] = part
                position[name] = cursor.get(name, 0) + len(part)
        main = taken.pop(_MAIN, [])
        subagents = [SubagentTranscript(name, lines) for name, lines in taken.items()]
        return Transcript(main, subagents), position, more

    async def prepare(self, params: PrepareSessionParams) -> PrepareSessionResult:
        """Take a part of a record; with the last one, put it where the agent looks for it."""
        records = _records_of(params.agentic_tool)
        parts = self._arrived.pop(params.session_id, []) if params.part else []
        if params.part != len(parts):
            raise InvalidParams(
                f"params.part: expected {len(parts)}, not {params.part}",
                hint="Begin again with part 0.",
            )
        self._arrived[params.session_id] = [*parts, params.transcript]
        if sum(_weight(part) for held in self._arrived.values() for part in held) > MOST_RESTORED:
            del self._arrived[params.session_id]
            raise Overloaded(f"records of more than {MOST_RESTORED} bytes cannot be restored")
        if params.more:
            return PrepareSessionResult(ready=False)
        whole = joined(self._arrived.pop(params.session_id))
        await records.restore(params.agent_session_id, params.workspace, whole)
        return PrepareSessionResult(ready=True)


def _records_of(agent: str) -> Transcripts:
    records = find_agent(agent).transcripts
    if records is None:
        raise NoTranscript(f"the agent {agent} keeps no record of its conversations")
    return records


def _fitting(items: list[T], room: int, size: Callable[[T], int]) -> Iterator[T]:
    """Take from the front as much as fits; one always does."""
    used = 0
    for item in items:
        used += size(item)
        if used > room and used > size(item):
            return
        yield item


def _stamp(records: Transcripts, params: ReadTranscriptParams) -> list[tuple[int, int]]:
    """Tell how a record looks from outside; it differs once the record does."""
    stamps = []
    for path in records.paths(params.agent_session_id, params.workspace):
        try:
            found = path.stat()
        except OSError:
            stamps.append((0, 0))
        else:
            stamps.append((found.st_mtime_ns, found.st_size))
    return stamps


def _read_cursor(text: str | None) -> Cursor:
    if text is None:
        return {}
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=Cursor)
    except (*UNREADABLE, ValueError):
        raise InvalidParams("params.cursor: it is none of those that were given") from None


def _write_cursor(position: Cursor) -> str:
    # Part of an address, where it is asked for over HTTP.
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode()


def _size_of(block: TranscriptBlock) -> int:
    return len(msgspec.json.encode(block))


def _weight(part: Transcript) -> int:
    return sum(map(len, part.main)) + sum(len(line) for s in part.subagents for line in s.lines)
