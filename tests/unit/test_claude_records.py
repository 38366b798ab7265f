"""Claude's records, also those that are damaged or of other versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from agor.agents.claude.transcripts import ClaudeTranscripts
from agor.errors import InvalidParams, NoTranscript
from agor.protocol.transcripts import SubagentTranscript, Transcript

SESSION = "0190c0de-0000-4000-8000-000000000000"
records = ClaudeTranscripts()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def line(**members: Any) -> Raw:
    return Raw(json.dumps(members).encode())


def said(text: str, at: str = "2026-11-16T08:00:00.000Z", **more: Any) -> Raw:
    content = [{"type": "text", "text": text}]
    return line(type="assistant", timestamp=at, message={"content": content, "model": "m"}, **more)


def prompted(text: str, **more: Any) -> Raw:
    return line(type="user", message={"role": "user", "content": text}, **more)


async def test_a_record_that_is_brought_is_what_was_read():
    brought = Transcript(
        [prompted("hello"), said("hello")],
        [
            SubagentTranscript("agent-a1.jsonl", [said("from below")]),
            SubagentTranscript("agent-a1.meta.json", [line(toolUseId="t1")]),
        ],
    )
    await records.restore(SESSION, "/work/my_shop", brought)
    assert await records.read(SESSION, "/work/my_shop") == brought
    path, *_ = records.paths(SESSION, "/work/my_shop")
    assert path.parent.name == "-work-my-shop"
    assert path.stat().st_mode & 0o777 == 0o600
    below = [block for block in records.blocks(brought) if block.parent_tool_use_id == "t1"]
    assert [block.text for block in below] == ["from below"]


async def test_a_record_that_has_more_already_stays():
    longer = Transcript([prompted("one"), said("two"), said("three")])
    await records.restore(SESSION, "/work", longer)
    await records.restore(SESSION, "/work", Transcript([prompted("one")]))
    assert await records.read(SESSION, "/work") == longer


async def test_a_line_that_was_cut_by_a_crash_is_left_out():
    await records.restore(SESSION, "/work", Transcript([prompted("one")]))
    path, *_ = records.paths(SESSION, "/work")
    with path.open("ab") as file:
        file.write(b'{"type":"assist\n' + bytes(said("two")) + b'\n{"type":"user","mess')
    record = await records.read(SESSION, "/work")
    assert [block.text for block in records.blocks(record)] == ["one", "two"]


@pytest.mark.parametrize("name", ["../../x", "", "a/b", "x" * 300])
async def test_a_name_that_leads_elsewhere_is_no_conversation(name: str):
    with pytest.raises(NoTranscript):
        await records.read(name, "/work")
    with pytest.raises(NoTranscript):
        await records.restore(name, "/work", Transcript())


async def test_a_sub_agents_record_goes_nowhere_else(home: Path):
    odd = Transcript([], [SubagentTranscript("../../../.bashrc", [line(a=1)])])
    with pytest.raises(InvalidParams):
        await records.restore(SESSION, "/work", odd)
    assert list(home.iterdir()) == []


def test_what_claude_wrote_in_somebodys_name_is_not_told():
    record = Transcript(
        [
            prompted("<system-reminder>x</system-reminder>", isMeta=True),
            prompted("<task-notification>x</task-notification>", promptSource="system"),
            prompted("This session is being continued", isCompactSummary=True),
            prompted("[Request interrupted by user for tool use]"),
            prompted("a prompt of before there were sources"),
            prompted("<b>bold</b>", promptSource="sdk"),
            line(type="assistant", message={"content": "an error", "model": "<synthetic>"}),
            line(type="progress", data={}),
        ]
    )
    told = [(block.kind, block.text) for block in records.blocks(record)]
    assert told == [
        ("user_message", "a prompt of before there were sources"),
        ("user_message", "<b>bold</b>"),
    ]


def test_a_tool_call_failed_if_its_result_says_so():
    use = [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "false"}}]
    answer = [{"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}]
    record = Transcript(
        [
            line(type="assistant", message={"content": use, "model": "m"}),
            line(type="user", message={"content": answer}),
        ]
    )
    assert [(block.kind, block.is_error) for block in records.blocks(record)] == [
        ("tool_use", True),
        ("tool_result", True),
    ]


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "message", "content", "text", "id", "tool_use_id", "origin"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
lines = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "system"])},
    optional={
        "message": anything,
        "timestamp": anything,
        "origin": anything,
        "content": anything,
        "subtype": st.sampled_from(["local_command", "compact_boundary"]),
    },
)


@given(st.lists(lines, max_size=4))
def test_no_line_whatever_is_in_it_keeps_the_others_from_being_told(odd: list[dict[str, Any]]):
    record = Transcript([*(line(**each) for each in odd), said("the last word")])
    assert "the last word" in [block.text for block in records.blocks(record)]
