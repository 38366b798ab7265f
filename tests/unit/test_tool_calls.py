"""What is shown of tool calls: the part that matters on a line, and all of it to who decides."""

from __future__ import annotations

import sys

import pytest

from agor.cli.diffs import diff_lines
from agor.cli.tool_calls import TOOLS, Change, brief, changes_of, details, subject_of


@pytest.mark.parametrize(
    ("name", "tool_input", "line"),
    [
        ("Any", {}, ""),
        ("Bash", {"description": "List", "command": "ls -la"}, "ls -la"),
        ("run", {"command": ["ls", "-la"]}, "ls -la"),
        ("Grep", {"path": "src", "pattern": "x"}, "x"),
        ("mcp__web__get", {"depth": 1, "url": "https://x"}, "https://x"),
        ("mcp__x__y", {"a": 1, "b": None, "c": True}, "1  true"),
        ("fileChange", {"changes": [{"path": "a"}, {"path": "b"}]}, "a b"),
        ("fileChange", {"changes": {"a": {"content": "x"}}}, "a"),
        ("Bash", {"command": "first\nsecond"}, "first…"),
        ("Bash", {"command": "x" * 201}, "x" * 200 + "…"),
        ("Bash", {"command": "x" * 200}, "x" * 200),
        ("Edit", {"file_path": 5, "new_string": ["?"]}, "5"),
        ("fileChange", {"changes": "nonsense"}, "nonsense"),
    ],
)
def test_what_matters_is_put_on_one_short_line(name, tool_input, line):
    assert brief(name, tool_input) == line


def test_what_is_asked_about_cannot_hide_behind_control_sequences():
    hidden = {"command": "rm -rf / \x1b[2K\x1b[1Gls"}
    assert "\x1b" not in brief("Bash", hidden)
    assert "\x1b" not in "".join(details(hidden))


def test_who_decides_sees_every_line_and_member():
    told = list(details({"command": "ls\nrm -rf ~", "cwd": "/", "timeout": 5}))
    assert told == ["command: ls", "  rm -rf ~", "cwd: /", "timeout: 5"]


def test_what_is_shown_as_a_change_is_not_told_again():
    tool_input = {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": True}
    assert list(details(tool_input)) == ["file_path: a", "replace_all: true"]
    assert [change.new for change in changes_of(tool_input)] == ["y"]


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_of_the_table_is_about_the_member_that_it_names(name):
    assert subject_of(name, {"path": "z", TOOLS[name]: "x", "other": "y"}) == TOOLS[name]


def test_every_line_of_a_change_can_be_seen_however_long_it_is():
    old, new = ["same"] * 600 + ["old"], ["same"] * 600 + ["new", "\x1b[2Jhidden"]
    change = Change("a", "\n".join(old), "\n".join(new))
    told = [line.plain for line in diff_lines([change], sys.maxsize)]
    assert [told[-1], "-old" in told, "+new" in told] == ["+[2Jhidden", True, True]
    first, second = diff_lines([change], 1)
    assert (first.plain, second.plain) == (told[0], f"… {len(told) - 1} more lines")


def test_who_decides_sees_which_files_change():
    changes = [{"path": "a", "diff": "+x"}, {"path": "b\x1b", "diff": "+y"}]
    assert list(details({"changes": changes, "cwd": "/"})) == ["changes: a b", "cwd: /"]
