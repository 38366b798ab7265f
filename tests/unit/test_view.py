"""The view as plain text and as a terminal shows it: every word, in order, nothing that steers."""

from __future__ import annotations

import io
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from agor.cli.view import EventView
from agor.protocol.api import TaskState
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
    TokenUsage,
)


def shown(*events: Event | TaskState, terminal: bool = False, width: int = 80) -> list[str]:
    """Show events, and return the lines that stay; without colours."""
    console = Console(
        file=io.StringIO(), color_system=None, force_terminal=terminal, width=width, height=20,
        _environ={"TERM": "xterm"},
    )  # fmt: skip
    view = EventView(console, workspace="/work")
    # Nothing is drawn below: what is drawn there is wiped away again.
    for event in events:
        if isinstance(event, TaskState):
            view.end(event)
        else:
            view.show(event)
    view.pause()
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def said(kind: BlockKind, *pieces: str, block_id: str = "b") -> list[Event]:
    deltas = [BlockDelta(block_id, number, piece) for number, piece in enumerate(pieces)]
    length = sum(map(len, pieces))
    return [BlockStart(block_id, kind), *deltas, BlockComplete(block_id, len(pieces), length)]


def call(name: str, block_id: str = "u", **tool_input: object) -> BlockStart:
    return BlockStart(
        block_id, "tool_use", tool_use_id=f"id-{block_id}", tool_name=name, tool_input=tool_input
    )


def ended(**changes: object) -> TaskState:
    members: dict[str, object] = dict.fromkeys(TaskState.__struct_fields__)
    members |= {"task_id": "t", "status": "completed", "started_at": 1000, "ended_at": 3500}
    return TaskState(**(members | changes))  # type: ignore[arg-type]


# ── what is said ─────────────────────────────────────────────────────────────────────────────


def test_a_text_is_shown_once_however_it_was_cut():
    assert shown(*said("text", "two ", "li", "nes\nof", " text")) == ["two lines", "of text"]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text("ab \n", max_size=8), max_size=12))
def test_the_lines_do_not_depend_on_how_the_text_was_cut(pieces):
    whole = "".join(pieces)
    assert shown(*said("text", *pieces)) == shown(*said("text", whole))


def test_without_a_terminal_a_long_line_is_not_broken_and_markdown_stays_as_it_is():
    words = "**word** " * 100
    assert shown(*said("text", words)) == [words.rstrip()]


def test_square_brackets_are_text_and_no_markup():
    assert shown(*said("text", "[red]not red[/red] [/oops]")) == ["[red]not red[/red] [/oops]"]


MARKDOWN = (
    "# Head\n\nSome **bold** text\nover <two> lines.\n\n1. one\n2. two\n\n```py\nx = 1\n```\n"
)


def test_in_a_terminal_markdown_is_rendered():
    assert shown(*said("text", MARKDOWN), terminal=True) == [
        "Head", "", "Some bold text", "over <two> lines.", "", " 1 one", " 2 two", "", "  x = 1",
    ]  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, len(MARKDOWN)), max_size=10))
def test_rendered_text_does_not_depend_on_how_it_was_cut(places):
    edges = [0, *sorted(places), len(MARKDOWN)]
    pieces = [MARKDOWN[a:b] for a, b in itertools.pairwise(edges)]
    assert shown(*said("text", *pieces), terminal=True) == shown(
        *said("text", MARKDOWN), terminal=True
    )


WORDS = st.sampled_from(
    ["word", "*", "**", "`", "```\n", "\n", "\n\n", "# ", "- ", "1. ", "<b>", "&lt;", "[x](y)",
     "[r]: z", "| a |\n|---|\n", "> ", "    ", "~~~\n", "\\", "![i](j)", "---\n", "é世"]
)  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(st.lists(WORDS, max_size=25))
def test_no_word_is_lost_in_a_terminal_whatever_markdown_it_stands_in(words):
    pieces = [f"{word}w{number}w " for number, word in enumerate(words)]
    text = "".join("".join(line.split()) for line in shown(*said("text", *pieces), terminal=True))
    missing = [n for n in range(len(words)) if f"w{n}w" not in text]
    # What follows a fence on its line is the name of a language, and rendered as such.
    assert [n for n in missing if "`" not in words[n] and "~" not in words[n]] == []


def test_code_that_grows_long_is_shown_before_it_ends_and_whole():
    lines = [f"line {n}\n" for n in range(60)]
    told = shown(*said("text", "```\n", *lines, "```\n", "\nafter"), terminal=True)
    assert [line.strip() for line in told if line.strip()] == [
        *(line.strip() for line in lines), "after",
    ]  # fmt: skip


def test_thinking_is_told_apart_from_what_is_said():
    assert shown(*said("thinking", "hm"), *said("text", "yes")) == ["hm", "", "yes"]


def test_blocks_that_grow_at_the_same_time_are_not_mixed():
    lines = shown(
        BlockStart("a", "text"),
        BlockStart("b", "text"),
        BlockDelta("a", 0, "from a, "),
        BlockDelta("b", 0, "from b"),
        BlockDelta("a", 1, "more of a"),
    )
    assert lines == ["from a, more of a", "from b"]


def test_an_unfinished_line_is_shown_at_the_end():
    assert shown(BlockStart("b", "text"), BlockDelta("b", 0, "unfinished")) == ["unfinished"]


# ── tools ────────────────────────────────────────────────────────────────────────────────────


def test_a_tool_call_is_one_line_with_the_first_lines_of_its_result():
    lines = shown(
        call("Read", file_path="/work/src/a.py", limit=10),
        BlockUpdate("u", "awaiting_permission"),
        BlockUpdate("u", "completed"),
        BlockComplete("u", 0, 0),
        *said("tool_result", "".join(f"line {n}\n" for n in range(8))),
    )
    assert lines == [
        "● Read  src/a.py", "  └ line 0", "    line 1", "    line 2", "    line 3", "    line 4",
        "    … 3 more lines",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "tool_input", "change"),
    [
        (
            "Edit",
            {"file_path": "a", "old_string": "x\ny\n", "new_string": "x\nz\n"},
            [" x", "-y", "+z"],
        ),
        ("Write", {"file_path": "a", "content": "x\ny"}, ["+x", "+y"]),
        ("edit", {"filePath": "a", "oldString": "y", "newString": "z"}, ["-y", "+z"]),
        ("write_file", {"file_path": "a", "content": "x"}, ["+x"]),
        (
            "fileChange",
            {"changes": [{"path": "a", "kind": "update", "diff": "@@ -1 +1 @@\n-y\n+z"}]},
            ["@@ -1 +1 @@", "-y", "+z"],
        ),
        (
            "fileChange",
            {"changes": [{"path": "a", "kind": {"type": "add"}, "diff": "new\n"}]},
            ["+new"],
        ),
        ("execute", {"path": "a", "oldText": "y", "newText": "z"}, ["-y", "+z"]),
        (
            "MultiEdit",
            {"file_path": "a", "edits": [{"old_string": "y", "new_string": "z"}]},
            ["-y", "+z"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_an_edit_changes_is_shown(name, tool_input, change):
    assert shown(call(name, **tool_input)) == [f"● {name}  a", *(f"    {line}" for line in change)]


def test_a_large_change_is_cut_and_says_so():
    lines = shown(call("Write", file_path="a", content="x\n" * 1000))
    assert len(lines) < 50
    assert lines[-1] == "    … 960 more lines"


def test_a_call_whose_input_comes_later_is_shown_once_it_is_known():
    update = BlockUpdate("u", "running", tool_input={"command": "make"})
    assert shown(call("Bash"), update, BlockComplete("u", 0, 0)) == ["● Bash  make"]
    assert shown(call("Stop"), BlockComplete("u", 0, 0)) == ["● Stop"]


@pytest.mark.parametrize(
    ("update", "line"),
    [
        (BlockUpdate("u", "denied", reason="not today"), "  ⊘ denied: not today"),
        (BlockUpdate("u", "failed", reason="exit code 3"), "  ✗ failed: exit code 3"),
    ],
)
def test_a_tool_that_did_not_work_says_why(update, line):
    assert shown(call("Bash", command="x"), update)[1:] == [line]


def test_the_result_of_a_denied_call_does_not_say_it_again():
    result = BlockStart("r", "tool_result", tool_use_id="id-u")
    denied = BlockUpdate("u", "denied", reason="no")
    lines = shown(call("Bash", command="x"), denied, result, BlockDelta("r", 0, "no"))
    assert lines == ["● Bash  x", "  ⊘ denied: no"]


def test_what_a_sub_agent_does_stands_further_to_the_right():
    lines = shown(
        call("Task", description="look around"),
        BlockStart(
            "v", "tool_use", "id-u", tool_use_id="id-v", tool_name="Read",
            tool_input={"file_path": "b"},
        ),
        BlockStart("r", "tool_result", "id-u", tool_use_id="id-v"),
        BlockDelta("r", 0, "text of b"),
        BlockComplete("r", 1, 9),
        BlockStart("t", "text", "id-u"),
        BlockDelta("t", 0, "found it"),
    )  # fmt: skip
    assert lines == [
        "● Task  look around", "  ● Read  b", "    └ text of b", "", "  found it",
    ]  # fmt: skip


def test_results_that_stand_apart_from_their_calls_say_whose_they_are():
    lines = shown(
        call("Read", "u", file_path="a"),
        call("Grep", "v", pattern="b"),
        BlockStart("r", "tool_result", tool_use_id="id-u"),
        BlockDelta("r", 0, "of a"),
        BlockComplete("r", 1, 4),
        BlockStart("s", "tool_result", tool_use_id="id-v"),
        BlockDelta("s", 0, "of b"),
    )
    assert lines == ["● Read  a", "● Grep  b", "  └ Read: of a", "  └ of b"]


def test_tabs_do_not_cut_a_line_short():
    result = said("tool_result", "1\timport sys\n2\tprint()\n")
    assert shown(call("Read", file_path="a"), *result, terminal=True)[1:] == [
        "  └ 1   import sys", "    2   print()",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [40, 80])
def test_in_a_terminal_a_tool_call_never_takes_two_lines(width):
    lines = shown(
        call("Bash", command="x" * 300),
        *said("tool_result", "y" * 300),
        terminal=True,
        width=width,
    )
    assert len(lines) == 2
    assert all(len(line) == width and line.endswith("…") for line in lines)


# ── the end ──────────────────────────────────────────────────────────────────────────────────


def test_the_end_tells_time_tokens_and_cost():
    usage = TokenUsage(input=12_345, output=34, cache_read=900)
    assert shown(ended(token_usage=usage, cost=0.5)) == [
        "✓ completed · 2.5 s · 12k tokens in (900 cached), 34 out · $0.5000"
    ]


def test_a_failed_task_tells_what_went_wrong_and_what_to_do():
    problem = Problem("agent_failed", "it broke", "Try again.")
    assert shown(ended(status="failed", error=problem)) == [
        "✗ it broke", "  Try again.", "", "✗ failed · 2.5 s",
    ]  # fmt: skip


def test_remarks_and_errors_are_shown_and_quiet_events_are_not():
    lines = shown(
        Status("started"),
        MetadataUpdate(model="scripted"),
        Log("debug", "quiet"),
        Log("info", "got a key …1234"),
        Problem("oops", "something"),
    )
    assert lines == ["· got a key …1234", "", "✗ something"]


HOSTILE = "safe\x1b[2J\x1b]0;title\x07 \x9b31m\x08text\u202e"


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    "events",
    [
        said("text", HOSTILE),
        said("text", f"[{HOSTILE}](http://{HOSTILE})\n\n```{HOSTILE}\n{HOSTILE}\n```\n"),
        said("thinking", HOSTILE),
        said("tool_result", HOSTILE),
        [call(HOSTILE, path=HOSTILE)],
        [call("Write", file_path=HOSTILE, content=HOSTILE)],
        [call("fileChange", changes=[{"path": HOSTILE, "diff": f"+{HOSTILE}"}])],
        [call("X"), BlockUpdate("u", "denied", reason=HOSTILE)],
        [Log("info", HOSTILE)],
        [Problem("code", HOSTILE, HOSTILE)],
    ],
    ids=[
        "text",
        "markdown",
        "thinking",
        "result",
        "tool",
        "edit",
        "diff",
        "reason",
        "log",
        "problem",
    ],
)
def test_an_agent_cannot_send_control_sequences_to_the_terminal(events, terminal):
    # Without colours a terminal gets no sequence of ours in the lines that stay.
    text = "\n".join(shown(*events, terminal=terminal))
    assert "safe" in text
    steering = [
        c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c == "\u202e")
    ]
    assert steering == []
