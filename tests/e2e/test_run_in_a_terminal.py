"""`agor run` and `agor session attach` in a real pseudo-terminal: ask, stop, leave, come back."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.e2e.people_commands import Agor
from tests.e2e.runs import CHOICES, ask, asked, asks, at_terminal, sessions, tasks, words

LEFT = "You have left, and the task"


def test_yes_once_is_for_this_once(agor: Agor, tmp_path: Path):
    with at_terminal(agor, tmp_path, *words(asks("ls"), asks("ls"), {"text": "The end."})) as run:
        run.wait_for(CHOICES)
        assert "May the agent use Bash?" in run.text
        assert "command: ls" in run.text
        run.type("o\n")
        run.wait_for(CHOICES, times=2)
        run.type("o\n")
        assert run.wait_ended() == 0
        assert run.text.count("└ done") == 2
        assert "The end." in run.text
        assert re.search(r"✓ completed · \d+\.\d s · \d+ tokens in, 2 out", run.text)


def test_yes_for_the_session_is_for_the_same_again_and_for_nothing_else(agor: Agor, tmp_path: Path):
    script = words(asks("ls"), asks("ls"), asks("rm x"), {"text": "The end."})
    with at_terminal(agor, tmp_path, *script) as run:
        run.wait_for(CHOICES)
        run.type("s\n")
        run.wait_for("command: rm x")
        run.wait_for(CHOICES, times=2)
        run.type("o\n")
        assert run.wait_ended() == 0
    with at_terminal(agor, tmp_path, *words(asks("ls"))) as run:
        run.wait_for(CHOICES)
        run.type("n\n")
        run.wait_for("no reason) ")
        run.type("\n")
        run.wait_ended()


def test_always_makes_a_rule_after_a_look_at_what_it_would_have_decided(agor: Agor, tmp_path: Path):
    with at_terminal(agor, tmp_path, *words(asks("git status -s"))) as run:
        run.wait_for(CHOICES)
        run.type("a\n")
        run.wait_for("Enter: exactly git status -s")
        run.wait_for("Pattern: ")
        run.type("git status*\n")
        run.wait_for("[e]verywhere: ")
        run.type("w\n")
        run.wait_for("it would have decided 1.")
        run.wait_for("[y/N] ")
        run.type("n\n")
        run.wait_for(CHOICES, times=2)
        run.type("a\n")
        run.wait_for("Pattern: ", times=2)
        run.type("git status*\n")
        run.wait_for("[e]verywhere: ", times=2)
        run.type("w\n")
        run.wait_for("[y/N] ", times=2)
        run.type("y\n")
        assert run.wait_ended() == 0
    rules = ask(agor, "/permission-rules")["items"]
    (rule,) = [each for each in rules if each["scope_id"] == str(tmp_path)]
    assert (rule["tool"], rule["input"]) == ("Bash", {"command": "git status*"})
    done = agor(*words(asks("git status")), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pattern_that_is_refused_can_be_given_again(agor: Agor, tmp_path: Path):
    with at_terminal(agor, tmp_path, *words(asks("ls"))) as run:
        run.wait_for(CHOICES)
        run.type("a\n")
        run.wait_for("Pattern: ")
        run.type("x" * 1001 + "\n")
        run.wait_for("[e]verywhere: ")
        run.type("e\n")
        run.wait_for(CHOICES, times=2)
        run.type("o\n")
        assert run.wait_ended() == 0


def test_no_tells_the_agent_why(agor: Agor, tmp_path: Path):
    with at_terminal(agor, tmp_path, *words(asks("rm -rf x"), {"text": "Then not."})) as run:
        run.wait_for(CHOICES)
        run.type("what?\n")
        run.wait_for("n  no; you may tell the agent why")
        run.wait_for(CHOICES, times=2)
        run.type("n\n")
        run.wait_for("no reason) ")
        run.type("it is precious\n")
        assert run.wait_ended() == 0
        assert "⊘ denied: it is precious" in run.text
        assert "Then not." in run.text


def test_what_was_typed_before_the_question_is_no_answer(agor: Agor, tmp_path: Path):
    os.mkfifo(tmp_path / "go")
    with at_terminal(
        agor, tmp_path, *words({"run": ["sh", "-c", "read x < go"]}, asks("ls"))
    ) as run:
        run.wait_for("● run")
        run.type("o\no")
        (tmp_path / "go").write_text("\n")
        run.wait_for(CHOICES)
        run.type("n\n")
        run.wait_for("no reason) ")
        run.type("\n")
        run.wait_ended()
        assert "⊘ denied" in run.text


def test_an_answer_from_elsewhere_ends_the_question(agor: Agor, tmp_path: Path):
    with at_terminal(agor, tmp_path, *words(asks("ls"), {"text": "The end."})) as run:
        run.wait_for(CHOICES)
        permission_id = asked(agor, tmp_path)
        assert agor.done("permission", "allow", permission_id[:23]) == "Bash is allowed\n"
        assert run.wait_ended() == 0
        assert "Bash was allowed elsewhere." in run.text
        assert "The end." in run.text


def test_a_question_of_the_model_is_answered_in_words(agor: Agor, tmp_path: Path):
    questions = [
        {"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]},
        {"question": "And why?"},
    ]
    tool = {"name": "AskUserQuestion", "input": {"questions": questions}, "ask": True}
    with at_terminal(agor, tmp_path, *words({"tool": tool})) as run:
        run.wait_for("2  Blue")
        run.wait_for("your own words) ")
        run.type("2\n")
        run.wait_for("(your answer) ")
        run.type("it is calm\n")
        assert run.wait_ended() == 0
    session_id = sessions(agor, tmp_path)[0]["session_id"]
    told = ask(agor, f"/sessions/{session_id}/messages")["items"]
    (used,) = [each["tool_input"] for each in told if each["kind"] == "tool_use"]
    assert used["answers"] == {"Which colour?": "Blue", "And why?": "it is calm"}


def test_ctrl_c_stops_the_task_and_waits_for_it(agor: Agor, tmp_path: Path):
    with at_terminal(agor, tmp_path, *words({"run": ["sh", "-c", "echo begun; sleep 600"]})) as run:
        run.wait_for("begun")
        run.type("\x03")
        assert run.wait_ended() == 130
        assert "Stopping the task, and waiting for it." in run.text
        assert "■ stopped" in run.text
    (task,) = tasks(agor, tmp_path)
    assert (task["status"], task["survivors"]) == ("stopped", 0)


def test_ctrl_c_at_a_question_stops_the_task(agor: Agor, tmp_path: Path):
    with at_terminal(agor, tmp_path, *words(asks("ls"))) as run:
        run.wait_for(CHOICES)
        run.type("\x03")
        assert run.wait_ended() == 130
    assert tasks(agor, tmp_path)[0]["status"] == "stopped"


def test_a_second_ctrl_c_leaves_without_waiting(agor: Agor, tmp_path: Path):
    stubborn = {"run": ["sh", "-c", "trap '' TERM INT; echo begun; while :; do sleep 1; done"]}
    with at_terminal(agor, tmp_path, *words(stubborn)) as run:
        run.wait_for("begun")
        run.type("\x03")
        run.wait_for("Ctrl-C again leaves")
        run.type("\x03")
        assert run.wait_ended() == 130
        assert LEFT in run.text or "■ stopped" in run.text
        assert "agor session attach" in run.text or "■ stopped" in run.text
    agor.done("session", "stop", cwd=tmp_path)
    assert tasks(agor, tmp_path)[0]["status"] == "stopped"


def test_who_leaves_with_ctrl_d_can_come_back_and_answer(agor: Agor, tmp_path: Path):
    with at_terminal(
        agor, tmp_path, *words({"text": "Before."}, asks("ls"), {"text": "After."})
    ) as run:
        run.wait_for(CHOICES)
        run.type("\x04")
        assert run.wait_ended() == 0
        assert f"{LEFT} goes on" in run.text
        assert "After." not in run.text
    with at_terminal(agor, tmp_path, "session", "attach") as run:
        run.wait_for(CHOICES)
        assert "Before." in run.text
        run.type("o\n")
        assert run.wait_ended() == 0
        assert "After." in run.text
        assert run.text.count("Before.") == 2, "once in the prompt, once as it was said"
    with at_terminal(agor, tmp_path, "session", "attach") as run:
        assert run.wait_ended() == 0
        assert "✓ completed" in run.text
        assert "Nothing runs in this session now." in run.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_closed_terminal_leaves_the_task_alone(
    agor: Agor, tmp_path: Path, number: signal.Signals
):
    with at_terminal(agor, tmp_path, *words(asks("ls"))) as run:
        run.wait_for(CHOICES)
        os.kill(run.process.pid, number)
        assert run.wait_ended() == 128 + number
    assert tasks(agor, tmp_path)[0]["status"] == "awaiting_permission"
    agor.done("session", "stop", cwd=tmp_path)


def test_a_daemon_that_is_killed_in_mid_sentence_is_not_missed(agor: Agor, tmp_path: Path):
    os.mkfifo(tmp_path / "go")
    speak = "printf 'one\\ntwo\\nthree\\n'; read x < go; printf 'four\\nfive\\n'"
    with at_terminal(
        agor, tmp_path, *words({"run": ["sh", "-c", speak]}, {"text": "The end."})
    ) as run:
        run.wait_for("three")
        described = json.loads((agor.home / "run" / "daemon.json").read_text())
        os.kill(described["pid"], signal.SIGKILL)
        agor.done("daemon", "start", "--port", "0")
        (tmp_path / "go").write_text("\n")
        assert run.wait_ended() == 0
        shown = run.text.split("└", 1)[1]
        places = [shown.index(word) for word in ("one", "two", "three", "four", "five", "The end.")]
        assert places == sorted(places)


def test_no_colour_where_none_is_wanted(agor: Agor, tmp_path: Path):
    script = words(
        {"text": "# Head\n\n```py\nx = 1\n```\n"},
        {
            "tool": {
                "name": "Edit",
                "input": {"file_path": "a", "old_string": "x", "new_string": "y"},
            }
        },
    )
    colour = re.compile(rb"\x1b\[[0-9;]*(3[0-9]|4[0-9]|9[0-7])m")
    with at_terminal(agor, tmp_path, *script, env={"NO_COLOR": "1"}) as run:
        assert run.wait_ended() == 0
        assert not colour.search(run.raw)
        assert "+y" in run.text
    with at_terminal(agor, tmp_path, *script) as run:
        assert run.wait_ended() == 0
        assert colour.search(run.raw)


@pytest.mark.parametrize("columns", ["80", "120"])
def test_nothing_is_wider_than_the_terminal(agor: Agor, tmp_path: Path, columns: str):
    script = words(
        {"text": "word " * 60}, {"tool": {"name": "Bash", "input": {"command": "x" * 200}}}
    )
    with at_terminal(agor, tmp_path, *script, env={"COLUMNS": columns}) as run:
        assert run.wait_ended() == 0
        said = [line for line in run.text.splitlines() if line.startswith(("word", "●"))]
        assert max(map(len, said)) <= int(columns)
    assert len(sessions(agor, tmp_path)) == 1
