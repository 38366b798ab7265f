"""Tells a conversation and its sub-agents from their records, in the order they were told live."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from agor.agents.codex.record import Place, Placed, Record, Spawned, result_of, use_of
from agor.protocol.transcripts import Transcript, TranscriptBlock

#: Behind everything else of a turn.
_LAST = Place(2**62, 0)


def retell(transcript: Transcript) -> list[TranscriptBlock]:
    """Give the blocks of a conversation with all of its sub-agents."""
    subagents = {each.name: each.lines for each in transcript.subagents}
    placed = _placed(Record(transcript.main), subagents)
    turns: dict[str, list[Placed]] = {}
    for each in placed:
        turns.setdefault(each.turn, []).append(each)
    return [
        each.block for turn in turns.values() for each in sorted(turn, key=lambda each: each.place)
    ]


def _placed(record: Record, subagents: dict[str, list[Raw]]) -> list[Placed]:
    found = list(record.placed)
    for name, agent in record.agents.items():
        lines = subagents.pop(name, [])
        inside = _placed(Record(lines, agent.item["id"]), subagents)
        found += [*inside, *_spawned(agent, inside, record.parent)]
    return found


def _spawned(agent: Spawned, inside: list[Placed], parent: str | None) -> list[Placed]:
    """Make the blocks of a sub-agent's own call: its beginning, and its last words."""
    ended = agent.ended
    words = [
        each for each in inside
        if each.block.kind == "text" and each.place.moment <= (ended or _LAST).moment
    ]  # fmt: skip
    last = max(words, key=lambda each: each.place).block.text if words else ""
    call_id = agent.item["id"]
    blocks = (
        (agent.began, use_of(agent.item, failed=False)),
        (ended or _LAST, result_of(call_id, last, failed=False)),
    )
    return [Placed(agent.turn, place, _under(block, parent)) for place, block in blocks]


def _under(block: TranscriptBlock, parent: str | None) -> TranscriptBlock:
    return msgspec.structs.replace(block, parent_tool_use_id=parent)
