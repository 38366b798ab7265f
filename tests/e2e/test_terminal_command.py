"""`agor terminal` in a real pseudo-terminal: open, type, leave, come back, close."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.people_commands import Agor, with_daemon
from tests.e2e.runs import at_terminal, words
from tests.e2e.terminal import Terminal

LEAVE = "\x1dd"
GOES_ON = "It goes on: agor terminal attach "
WAY_OUT = "Ctrl-] and then d leaves it running."


@pytest.fixture(scope="module")
def agor(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agor]:
    """The command, with a daemon whose executors outlive its restart."""
    home = tmp_path_factory.mktemp("d") / "h"
    env = {"AGOR_EXECUTION__ORPHAN_TIMEOUT_MS": "60000"}
    with with_daemon(installed / "agor", home, **env) as one:
        yield one


@pytest.fixture
def folder(agor: Agor, tmp_path: Path) -> Path:
    """A folder with a session."""
    agor.done(*words({"text": "Here."}), cwd=tmp_path)
    return tmp_path


@contextlib.contextmanager
def at(agor: Agor, folder: Path, *arguments: str) -> Iterator[Terminal]:
    with at_terminal(agor, folder, "terminal", *arguments) as shown:
        yield shown


def listed(agor: Agor) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(agor.done("terminal", "list", "--json"))
    return found


@pytest.fixture(autouse=True)
def _close_all(agor: Agor) -> Iterator[None]:
    yield
    for each in listed(agor):
        agor("terminal", "close", str(each["terminal_id"]))


def test_a_shell_in_the_sessions_folder_with_its_exit_code(agor: Agor, folder: Path):
    with at(agor, folder, "open", "--shell", "/bin/sh") as shown:
        shown.wait_for(WAY_OUT)
        shown.type("echo in:$(pwd); tty | sed s,^,tty:,\r")
        shown.wait_for(f"in:{folder}")
        shown.wait_for("tty:/dev/pts/")
        shown.type("exit 7\r")
        assert shown.wait_ended() == 7
    assert listed(agor) == []


def test_left_and_come_back_to_with_all_that_it_had(agor: Agor, folder: Path):
    with at(agor, folder, "open", "--shell", "/bin/sh") as shown:
        shown.wait_for(WAY_OUT)
        shown.type("kept=mine; echo ready-$kept\r")
        shown.wait_for("ready-mine")
        shown.type(LEAVE)
        assert shown.wait_ended() == 0
        assert GOES_ON in shown.text
    (one,) = listed(agor)
    assert (one["clients"], one["cwd"]) == (0, str(folder))
    with at(agor, folder, "attach", str(one["terminal_id"])[:13]) as shown:
        shown.wait_for("ready-mine")
        shown.type("echo again-$kept\r")
        shown.wait_for("again-mine")
        shown.type("\x04")
        assert shown.wait_ended() == 0


def test_ctrl_c_is_the_programs_and_not_ours(agor: Agor, folder: Path):
    with at(agor, folder, "open", "--shell", "/bin/sh") as shown:
        shown.wait_for(WAY_OUT)
        # It forks nobody: between a fork and its program, a shell would take Ctrl-C and forget it.
        program = "trap 'exit 130' INT; echo wait-; read never"
        shown.type(f'trap : INT; sh -c "{program}"; echo rc:$?\r')
        shown.wait_for("wait-\n")
        shown.type("\x03")
        shown.wait_for("rc:130")
        shown.type("exit\r")
        assert shown.wait_ended() == 0


def test_programs_know_the_size_of_the_window_also_when_it_changes(agor: Agor, folder: Path):
    with at(agor, folder, "open", "--shell", "/bin/sh") as shown:
        shown.wait_for(WAY_OUT)
        shown.resize(111, 33)
        shown.type("until stty size | grep '33 111'; do :; done; echo size:known\r")
        shown.wait_for("size:known\n")
        shown.type("exit\r")
        assert shown.wait_ended() == 0


def test_a_program_that_is_left_leaves_no_trace_in_ones_own_terminal(agor: Agor, folder: Path):
    with at(agor, folder, "open", "--shell", "/bin/sh") as shown:
        shown.wait_for(WAY_OUT)
        shown.type("printf '\\033[?1049h\\033[?25lout\\055there'\r")
        shown.wait_for("out-there")
        shown.type(LEAVE)
        assert shown.wait_ended() == 0
    end = shown.raw.rpartition(b"out-there")[2]
    assert b"\x1b[?25h\x1b[?1049l" in end


def test_a_daemon_that_is_restarted_is_not_noticed(agor: Agor, folder: Path):
    with at(agor, folder, "open", "--shell", "/bin/sh") as shown:
        shown.wait_for(WAY_OUT)
        shown.type("kept=mine; echo ready-$kept\r")
        shown.wait_for("ready-mine")
        agor.done("daemon", "restart")
        shown.type("echo again-$kept\r")
        shown.wait_for("again-mine")
        shown.type("exit 3\r")
        assert shown.wait_ended() == 3
    assert shown.text.count("ready-mine") == 1


def test_closed_elsewhere_it_is_told_and_nothing_is_left(agor: Agor, folder: Path):
    with at(agor, folder, "open", "--shell", "/bin/sh") as shown:
        shown.wait_for(WAY_OUT)
        shown.type("sleep 1000 & echo up-$!\r")
        shown.wait_for("up-")
        (one,) = listed(agor)
        said = agor.done("terminal", "close", str(one["terminal_id"]))
        assert said == f"{one['terminal_id']} is closed\n"
        assert shown.wait_ended() == 1
        assert "The terminal has ended: closed by" in shown.text
    assert listed(agor) == []


def test_without_a_terminal_one_is_opened_only_if_it_is_to_be_left(agor: Agor, folder: Path):
    told = agor.refused("terminal", "open")
    assert told == "error: there is no terminal to show it in\nAdd --detach to open it anyway.\n"
    assert listed(agor) == []
    opened = agor.done("terminal", "open", "--detach", cwd=folder).strip()
    assert [each["terminal_id"] for each in listed(agor)] == [opened]
    table = agor.done("terminal", "list")
    assert opened in table
    assert str(folder) in table
    assert "there is no terminal to show it in" in agor.refused("terminal", "attach", opened)


def test_unknown_and_unclear_ids_are_said_so(agor: Agor, folder: Path):
    assert "No terminal is open" in agor("terminal", "list").stderr
    assert "too short for an id" in agor.refused("terminal", "close", "01")
    assert "no open terminal begins with" in agor.refused("terminal", "close", "0123456")
    first, second = (agor.done("terminal", "open", "-d", cwd=folder).strip() for _ in "ab")
    told = agor.refused("terminal", "close", first[:5])
    assert "2 terminals begin with" in told
    assert first in told
    assert second in told


def test_a_shell_that_a_signal_killed_is_said_so_and_there_is_nothing_to_come_back_to(
    agor: Agor, folder: Path
):
    with at(agor, folder, "open", "--shell", "sh") as shown:
        shown.wait_for(WAY_OUT)
        (one,) = listed(agor)
        shown.type("kill -9 $$\r")
        assert shown.wait_ended() == 137
        assert "The terminal has ended: its shell was killed by SIGKILL" in shown.text
    with at(agor, folder, "attach", str(one["terminal_id"])) as shown:
        assert shown.wait_ended() == 1
        assert "this terminal has ended: its shell was killed by SIGKILL" in shown.text
        assert WAY_OUT not in shown.text
