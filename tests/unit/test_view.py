"""The event view as plain text: the same order, every word, nothing that moves a cursor."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from agor.cli.view import EventView, brief
from agor.protocol.events import (
    BlockComplete,
    BlockDelta,
    BlockKind,
    BlockStart,
    BlockUpdate,
    Event,
    Log,
    MetadataUpdate,
    Problem,
    Status,
    TaskResult,
    TokenUsage,
)


def shown(*events: Event) -> list[str]:
    """Show events where there is no terminal and no colour, and return the lines."""
    console = Console(file=io.StringIO(), color_system=None, force_terminal=False, width=80)
    with EventView(console) as view:
        for event in events:
            view.show(event)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def said(kind: BlockKind, *pieces: str, block_id: str = "b") -> list[Event]:
    deltas = [BlockDelta(block_id, number, piece) for number, piece in enumerate(pieces)]
    length = sum(map(len, pieces))
    return [BlockStart(block_id, kind), *deltas, BlockComplete(block_id, len(pieces), length)]


def test_a_text_is_shown_once_however_it_was_cut():
    assert shown(*said("text", "two ", "li", "nes\nof", " text")) == ["two lines", "of text"]


@settings(deadline=None)
@given(st.lists(st.text("ab \n", max_size=8), max_size=12))
def test_the_lines_do_not_depend_on_how_the_text_was_cut(pieces):
    whole = "".join(pieces)
    assert shown(*said("text", *pieces)) == shown(*said("text", whole))


def test_a_long_line_is_not_broken():
    words = "word " * 100
    assert shown(*said("text", words)) == [words.rstrip()]


def test_square_brackets_are_text_and_no_markup():
    assert shown(*said("text", "[red]not red[/red] [/oops]")) == ["[red]not red[/red] [/oops]"]


def test_a_tool_call_shows_its_name_input_state_and_result():
    lines = shown(
        BlockStart("u", "tool_use", tool_use_id="t", tool_name="Read", tool_input={"path": "a.py"}),
        BlockUpdate("u", "awaiting_permission"),
        BlockUpdate("u", "completed"),
        BlockComplete("u", 0, 0),
        *said("tool_result", "import this\n"),
    )
    assert lines == [
        "● Read  a.py",
        "  ? Read: awaiting permission",
        "  ✓ Read: completed",
        "    import this",
    ]


@pytest.mark.parametrize(
    ("update", "line"),
    [
        (BlockUpdate("u", "denied", reason="not today"), "  ⊘ Read: denied (not today)"),
        (BlockUpdate("u", "failed", reason="exit code 3"), "  ✗ Read: failed (exit code 3)"),
    ],
)
def test_a_tool_that_did_not_work_says_why(update, line):
    assert shown(BlockStart("u", "tool_use", tool_name="Read"), update)[1:] == [line]


def test_blocks_that_grow_at_the_same_time_are_not_mixed_within_a_line():
    lines = shown(
        BlockStart("a", "text"),
        BlockStart("b", "text"),
        BlockDelta("a", 0, "from a"),
        BlockDelta("b", 0, "from b"),
        BlockDelta("a", 1, "more of a"),
    )
    assert lines == ["from a", "from b", "more of a"]


def test_the_result_tells_status_blocks_and_usage():
    usage = TokenUsage(input=12, output=34)
    (line,) = shown(TaskResult("completed", 2, usage, cost=0.5))
    assert line.startswith("✓ completed · 2 blocks · 12 tokens in, 34 out · $0.5000 · ")


def test_a_failed_result_tells_what_went_wrong_and_what_to_do():
    problem = Problem("agent_failed", "it broke", "Try again.")
    problem_line, hint, result = shown(TaskResult("failed", 0, TokenUsage(), error=problem))
    assert (problem_line, hint) == ("  ✗ it broke", "    Try again.")
    assert result.startswith("✗ failed")


def test_remarks_and_errors_are_shown_and_quiet_events_are_not():
    lines = shown(
        Status("started"),
        MetadataUpdate(model="scripted"),
        Log("info", "got a key …1234"),
        Problem("oops", "something"),
    )
    assert lines == ["  · got a key …1234", "  ✗ something"]


def test_an_unfinished_line_is_shown_at_the_end():
    assert shown(BlockStart("b", "text"), BlockDelta("b", 0, "unfinished")) == ["unfinished"]


HOSTILE = "safe\x1b[2J\x1b]0;title\x07 \x9b31m\x08text"


@pytest.mark.parametrize(
    "events",
    [
        said("text", HOSTILE),
        [BlockStart("u", "tool_use", tool_name=HOSTILE, tool_input={"path": HOSTILE})],
        [BlockStart("u", "tool_use", tool_name="X"), BlockUpdate("u", "denied", reason=HOSTILE)],
        [Log("info", HOSTILE)],
        [Problem("code", HOSTILE, HOSTILE)],
    ],
    ids=["text", "tool", "reason", "log", "problem"],
)
def test_an_agent_cannot_send_control_sequences_to_the_terminal(events):
    text = "\n".join(shown(*events))
    assert "safe" in text
    assert [c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)] == []


@pytest.mark.parametrize(
    ("tool_input", "line"),
    [
        ({}, ""),
        ({"file_path": "a.py"}, "a.py"),
        ({"command": ["ls", "-la"]}, "ls -la"),
        ({"a": 1, "b": None, "c": True}, "1 None True"),
        ({"text": "first\nsecond"}, "first…"),
        ({"text": "x" * 101}, "x" * 100 + "…"),
        ({"text": "x" * 100}, "x" * 100),
    ],
)
def test_a_tools_input_is_put_on_one_short_line(tool_input, line):
    assert brief(tool_input) == line


def test_what_is_asked_about_cannot_hide_behind_control_sequences():
    assert "\x1b" not in brief({"command": "rm -rf / \x1b[2K\x1b[1Gls"})
