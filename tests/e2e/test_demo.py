"""`agor demo`: what a newcomer sees, with a terminal and without, and that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal, terminal
from tests.integration.processes import PATIENCE, Mark

QUESTION = "May the agent use Write on hello.py?"


@pytest.fixture
def demo(installed: Path, mark: Mark, temporary_folder: Path) -> Iterator[Terminal]:
    """The demo in a terminal, at its question."""
    env = {"TMPDIR": str(temporary_folder)}
    with terminal([str(installed / "agor"), "demo"], mark, env) as running:
        running.wait_for(f"{QUESTION} [Y/n]")
        yield running


def leaves_nothing(mark: Mark, temporary_folder: Path) -> bool:
    mark.wait_gone()
    return list(temporary_folder.iterdir()) == []


def test_without_a_terminal_it_plays_to_the_end_and_leaves_nothing(
    installed, mark, temporary_folder
):
    done = subprocess.run(
        [installed / "agor", "demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=mark.env | {"TMPDIR": str(temporary_folder)},
    )
    assert done.returncode == 0
    assert done.stderr == ""
    shown = done.stdout
    in_order = ["● run", "ls -la", "● Write", QUESTION, "hello from", "✓ completed"]
    places = [shown.index(text) for text in in_order[:-1]] + [shown.rindex(in_order[-1])]
    assert places == sorted(places)
    assert "the demo says yes" in shown
    assert "hello from an isolated executor" in shown
    assert "the daemon was killed (kill -9) and is back" in shown
    said = shown.replace("\n", " ").split("word in ", 1)[1].split(" ", 1)[1]
    for word in ("While", "this", "is", "said", "somebody", "goes", "not", "missed."):
        assert word in said
    assert "each shown once" in shown
    assert shown.count("✓ completed") == 2
    assert "\x1b" not in shown, "no colours where there is no terminal"
    assert leaves_nothing(mark, temporary_folder)


def test_it_asks_and_takes_yes(demo, mark, temporary_folder):
    demo.type("y\n")
    assert demo.wait_ended() == 0
    assert "hello from an isolated executor" in demo.text
    assert leaves_nothing(mark, temporary_folder)


def test_it_asks_and_takes_no_and_says_so(demo, mark, temporary_folder):
    demo.type("n\n")
    assert demo.wait_ended() == 0
    assert "denied: you said no" in demo.text
    assert "Then I leave the folder as it is." in demo.text
    assert "hello from an isolated executor" not in demo.text
    assert leaves_nothing(mark, temporary_folder)


def test_the_end_of_input_at_the_question_is_no_consent(demo, mark, temporary_folder):
    demo.type("\x04")
    demo.wait_ended()
    assert "denied" in demo.text
    assert "hello from an isolated executor" not in demo.text
    assert "Traceback" not in demo.text
    assert leaves_nothing(mark, temporary_folder)


def test_ctrl_c_at_the_question_ends_it_and_leaves_nothing(demo, mark, temporary_folder):
    demo.type("\x03")
    assert demo.wait_ended() != 0
    assert "Traceback" not in demo.text
    assert leaves_nothing(mark, temporary_folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ended_by_a_signal_it_leaves_no_executor(demo, mark, number):
    os.kill(demo.process.pid, number)
    assert demo.wait_ended() != 0
    mark.wait_gone()


def test_what_goes_wrong_is_said_in_words(installed, mark, temporary_folder):
    # A name that looks like markup, so long that no socket fits below it.
    folder = temporary_folder / "[" / ("red]" + "x" * 100)
    folder.mkdir(parents=True)
    done = subprocess.run(
        [installed / "agor", "demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=mark.env | {"TMPDIR": str(folder), "COLUMNS": "1000"},
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(folder) in done.stderr
    assert "too long for a socket" in done.stderr
    assert list(folder.iterdir()) == []
