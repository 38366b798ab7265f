"""Records of conversations in parts: cut, read from any place, followed while they grow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from agor.agents import registry
from agor.agents.scripted import ScriptedAgent
from agor.agents.transcripts import Transcripts
from agor.errors import InvalidParams, NoTranscript, Overloaded
from agor.executor import transcripts
from agor.executor.transcripts import TranscriptDesk
from agor.protocol.transcripts import (
    PrepareSessionParams,
    ReadTranscriptParams,
    ReadTranscriptResult,
    SubagentTranscript,
    Transcript,
    TranscriptBlock,
    joined,
    parts_of,
)


class Files(Transcripts):
    """Records of an agent that keeps one line per block in a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def read(self, agent_session_id: str, cwd: str) -> Transcript:
        (path,) = self.paths(agent_session_id, cwd)
        if not path.exists():
            raise NoTranscript("there is none")
        return Transcript([Raw(line) for line in path.read_bytes().splitlines()])

    async def restore(self, agent_session_id: str, cwd: str, transcript: Transcript) -> None:
        (path,) = self.paths(agent_session_id, cwd)
        path.write_bytes(b"".join(bytes(line) + b"\n" for line in transcript.main))

    def paths(self, agent_session_id: str, cwd: str) -> Sequence[Path]:
        return [self.folder / agent_session_id]

    def blocks(self, transcript: Transcript) -> list[TranscriptBlock]:
        words = [msgspec.json.decode(line) for line in transcript.main]
        return [TranscriptBlock(kind="text", text=word) for word in words]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    class Recording(ScriptedAgent):
        name = "recording"
        transcripts = Files(tmp_path)

    monkeypatch.setitem(registry.AGENTS, "recording", Recording)
    return Recording.transcripts


def asked(**more: object) -> ReadTranscriptParams:
    members = {"session_id": "s", "agentic_tool": "recording", "agent_session_id": "a"}
    return msgspec.convert(members | {"workspace": "/"} | more, ReadTranscriptParams)


async def read_all(desk: TranscriptDesk, **more: object) -> list[ReadTranscriptResult]:
    parts = [await desk.read(asked(**more))]
    while parts[-1].more:
        parts.append(await desk.read(asked(cursor=parts[-1].cursor, **more)))
    return parts


async def test_a_record_larger_than_a_message_comes_in_parts_that_make_it_whole(files: Files):
    lines = [b'"%03d"' % number for number in range(100)]
    (files.folder / "a").write_bytes(b"\n".join(lines))
    parts = await read_all(TranscriptDesk(max_line=100))
    assert len(parts) == 10
    assert [bytes(line) for part in parts for line in part.transcript.main] == lines
    blocks = await read_all(TranscriptDesk(max_line=200), form="blocks")
    assert [block.text for part in blocks for block in part.blocks] == [
        f"{number:03d}" for number in range(100)
    ]
    assert len(blocks) > 10


async def test_who_follows_a_record_gets_what_is_added_and_nothing_twice(files: Files):
    path = files.folder / "a"
    path.write_bytes(b'"one"\n')
    desk = TranscriptDesk(max_line=1000)
    (first,) = await read_all(desk)
    waiting = asyncio.create_task(desk.read(asked(cursor=first.cursor, wait_ms=60_000)))
    done, _ = await asyncio.wait((waiting,), timeout=0.3)
    assert not done
    with path.open("ab") as file:
        file.write(b'"two"\n')
    second = await asyncio.wait_for(waiting, 20)
    assert [bytes(line) for line in second.transcript.main] == [b'"two"']
    (nothing,) = await read_all(desk, cursor=second.cursor)
    assert (nothing.transcript.main, nothing.cursor) == ([], second.cursor)


async def test_a_record_is_restored_once_its_last_part_is_there(files: Files):
    desk = TranscriptDesk(max_line=1000)
    for number, word in enumerate((b'"a"', b'"b"', b'"c"')):
        assert not (files.folder / "a").exists()
        params = PrepareSessionParams(
            session_id="s", agentic_tool="recording", agent_session_id="a", workspace="/",
            transcript=Transcript([Raw(word)]), part=number, more=number < 2,
        )  # fmt: skip
        assert (await desk.prepare(params)).ready == (number == 2)
    assert (files.folder / "a").read_bytes() == b'"a"\n"b"\n"c"\n'


async def test_a_record_that_was_broken_off_is_begun_anew_and_not_mixed_up(files: Files):
    desk = TranscriptDesk(max_line=1000)

    def part(number: int, word: bytes, *, more: bool) -> PrepareSessionParams:
        return PrepareSessionParams(
            session_id="s", agentic_tool="recording", agent_session_id="a", workspace="/",
            transcript=Transcript([Raw(word)]), part=number, more=more,
        )  # fmt: skip

    await desk.prepare(part(0, b'"half"', more=True))
    await desk.prepare(part(0, b'"a"', more=True))
    assert (await desk.prepare(part(1, b'"b"', more=False))).ready
    assert (files.folder / "a").read_bytes() == b'"a"\n"b"\n'
    with pytest.raises(InvalidParams, match=r"params\.part: expected 0, not 1"):
        await desk.prepare(part(1, b'"c"', more=False))


async def test_a_record_without_end_is_refused_and_forgotten(files: Files, monkeypatch):
    monkeypatch.setattr(transcripts, "MOST_RESTORED", 100)
    desk = TranscriptDesk(max_line=1000)
    params = PrepareSessionParams(
        session_id="s", agentic_tool="recording", agent_session_id="a", workspace="/",
        transcript=Transcript([Raw(b'"' + b"x" * 60 + b'"')]), more=True,
    )  # fmt: skip
    await desk.prepare(params)
    with pytest.raises(Overloaded):
        await desk.prepare(msgspec.structs.replace(params, part=1))
    assert not (await desk.prepare(params)).ready


async def test_what_is_no_cursor_and_what_is_no_record_is_said(files: Files):
    desk = TranscriptDesk(max_line=1000)
    with pytest.raises(NoTranscript):
        await desk.read(asked())
    with pytest.raises(NoTranscript, match="scripted keeps no record"):
        await desk.read(asked(agentic_tool="scripted"))
    (files.folder / "a").write_bytes(b'"one"\n')
    with pytest.raises(InvalidParams, match=r"params\.cursor"):
        await desk.read(asked(cursor="nonsense"))


_lines = st.lists(st.integers(0, 10**9).map(lambda n: Raw(str(n).encode())), max_size=30)


@given(_lines, st.dictionaries(st.sampled_from("abc"), _lines), st.integers(1, 60))
def test_the_parts_of_a_record_are_small_and_make_it_whole(main, subagents, most):
    kept = {name: lines for name, lines in subagents.items() if lines}
    record = Transcript(main, [SubagentTranscript(*each) for each in kept.items()])
    parts = list(parts_of(record, most))
    again = joined(parts)
    assert msgspec.json.encode(again) == msgspec.json.encode(record)
    for part in parts:
        lines = [*part.main, *(line for each in part.subagents for line in each.lines)]
        assert len(lines) <= 1 or sum(map(len, lines)) <= most
