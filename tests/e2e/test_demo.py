"""`agor demo`: what a newcomer sees, with a terminal and without, and that nothing is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal, terminal
from tests.integration.processes import PATIENCE, Mark, inhabitants, wait_nobody

#: Seconds for all of it: a daemon, an agent, another daemon, on a machine with much to do.
LONG = 5 * PATIENCE
CHOICES = "[o]nce  [s]ession  [a]lways  [n]o:"


def program_ran(shown: str) -> bool:
    """Tell whether the program has printed something; its text is shown in any case."""
    return re.search(r"hello from process \d+, which runs as", shown) is not None


@pytest.fixture
def demo(installed: Path, mark: Mark, temporary_folder: Path) -> Iterator[Terminal]:
    """The demo in a terminal, at its question."""
    env = {"TMPDIR": str(temporary_folder)}
    with terminal([str(installed / "agor"), "demo"], mark, env) as running:
        running.wait_for(CHOICES, patience=LONG)
        yield running


def leaves_nothing(temporary_folder: Path) -> bool:
    # Neither of the command itself nor of what it started: an executor and an agent have no mark.
    wait_nobody(lambda: inhabitants(temporary_folder))
    return list(temporary_folder.iterdir()) == []


def test_without_a_terminal_it_plays_to_the_end_and_leaves_nothing(
    installed, mark, temporary_folder
):
    done = subprocess.run(
        [installed / "agor", "demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG,
        env=mark.env | {"TMPDIR": str(temporary_folder)},
    )
    assert done.returncode == 0
    assert done.stderr == ""
    shown = done.stdout
    in_order = [
        "scripted model at", "starting a daemon", "daemon at", "starting Claude Code",
        "I will write", "● Write", "+import getpass", "the demo says yes", "● Bash",
        "That is all.", "✓ completed", "each shown once", "stopping the daemon", "have ended",
    ]  # fmt: skip
    places = [shown.index(text) for text in in_order]
    assert places == sorted(places)
    assert program_ran(shown)
    assert "(the daemon is killed, and started again)" in shown
    assert "(the daemon is back after" in shown
    said = shown.replace("\n", " ")
    for words in ("While this is being said", "the agent goes on, and not a word is missed."):
        assert words in said
    assert "tokens in" in shown
    assert "\x1b" not in shown, "no colours where there is no terminal"
    assert leaves_nothing(temporary_folder)


def test_it_asks_and_takes_yes(demo, temporary_folder):
    demo.type("o\n")
    demo.wait_for(CHOICES, times=2, patience=LONG)
    demo.type("o\n")
    assert demo.wait_ended(LONG) == 0
    assert program_ran(demo.text)
    assert "each shown once" in demo.text
    assert leaves_nothing(temporary_folder)


def test_it_asks_and_takes_no_and_says_so(demo, temporary_folder):
    demo.type("n\n")
    demo.wait_for("Why not?")
    demo.type("not today\n")
    demo.wait_for(CHOICES, times=2, patience=LONG)
    demo.type("n\n")
    demo.wait_for("Why not?", times=2)
    demo.type("\n")
    assert demo.wait_ended(LONG) == 0
    assert "denied: not today" in demo.text
    assert not program_ran(demo.text)
    assert leaves_nothing(temporary_folder)


def test_the_end_of_input_at_the_question_is_no_consent(demo, temporary_folder):
    demo.type("\x04")
    demo.wait_ended(LONG)
    assert not program_ran(demo.text)
    assert "Traceback" not in demo.text
    assert leaves_nothing(temporary_folder)


def test_ctrl_c_at_the_question_ends_it_and_leaves_nothing(demo, temporary_folder):
    demo.type("\x03")
    assert demo.wait_ended(LONG) != 0
    assert "Traceback" not in demo.text
    assert leaves_nothing(temporary_folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ended_by_a_signal_it_leaves_no_executor(demo, temporary_folder, number):
    os.kill(demo.process.pid, number)
    assert demo.wait_ended(LONG) != 0
    wait_nobody(lambda: inhabitants(temporary_folder))


def test_what_goes_wrong_is_said_in_words(installed, mark, temporary_folder):
    # A name that looks like markup, so long that no socket fits below it.
    folder = temporary_folder / "[" / ("red]" + "x" * 100)
    folder.mkdir(parents=True)
    done = subprocess.run(
        [installed / "agor", "demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG,
        env=mark.env | {"TMPDIR": str(folder), "COLUMNS": "1000"},
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(folder) in done.stderr
    assert "too long for a socket" in done.stderr
    assert list(folder.iterdir()) == []
