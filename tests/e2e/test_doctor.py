"""`agor doctor` as people meet it: with a terminal and without, well and unwell."""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.terminal import terminal
from tests.integration.processes import PATIENCE

Doctor = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def home(tmp_path_factory) -> Path:
    """A folder with a name that is short enough for sockets."""
    made: Path = tmp_path_factory.mktemp("d")
    return made


@pytest.fixture
def doctor(installed, mark, home) -> Doctor:
    """Run it with these arguments, for a home of its own."""

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [installed / "agor", "doctor", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=mark.env | {"AGOR_HOME": str(home)},
        )

    return run


def test_where_all_is_well_it_says_so_and_changes_nothing(doctor, home):
    done = doctor("--as", getpass.getuser())
    assert done.returncode == 0, done.stdout
    assert done.stderr == ""
    shown = [line.split(":")[0][2:] for line in done.stdout.splitlines() if line[0] in "✓!"]
    me = getpass.getuser()
    assert shown[:5] == ["agor", "runtime", "limits", "sudo", me]
    assert f"claude-code as {me}" in shown[5:]
    assert "✗" not in done.stdout
    assert "\x1b" not in done.stdout, "no colours where there is no terminal"
    assert list(home.iterdir()) == []


def test_a_problem_is_told_with_what_to_do_and_an_exit_code(doctor, home):
    open_folder = home / "[red]"
    open_folder.mkdir(mode=0o755)
    done = doctor("--runtime", open_folder, "--as", "agor-no-such-user")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert f"✗ runtime: {open_folder} can be entered by others than the daemon's user" in lines
    assert any(line.startswith(f"    chmod 700 {open_folder}") for line in lines)
    assert any(line.startswith("✗ agor-no-such-user: ") for line in lines)
    assert lines[-1].startswith("2 problems")
    assert "Traceback" not in done.stderr


def test_a_name_cannot_steer_the_terminal(doctor):
    done = doctor("--as", "a\x1b]0;b")
    assert done.returncode == 1
    assert "\x1b" not in done.stdout


def test_in_a_terminal_it_is_in_colour_and_no_line_is_broken(installed, mark, home):
    folder = home / "not-there"
    command = [str(installed / "agor"), "doctor", "--runtime", str(folder)]
    with terminal(command, mark, {"COLUMNS": "40"}) as shown:
        assert shown.wait_ended() == 0
        assert f"✓ runtime: {folder} will be created at the first start" in shown.text
        assert "\x1b[" in shown._seen.decode()
