"""`agor credential` as people meet it: typed, piped, and never on the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.terminal import terminal
from tests.integration.daemon.daemon_process import DaemonProcess, running_daemon
from tests.integration.processes import Mark
from tests.nursery import run_agor

VALUE = "sk-ant-of-a-person-0123456789-WXYZ"
KEY = "ANTHROPIC_API_KEY"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with running_daemon() as one:
        yield one


@pytest.fixture
def agor(mark: Mark, daemon: DaemonProcess) -> Run:
    """Run `agor` with these arguments and this standard input."""

    def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        env = mark.env | {"AGOR_HOME": str(daemon.home.folder)}
        done = run_agor(*arguments, given=given, env=env)
        assert VALUE not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


def test_a_key_is_piped_in_listed_rotated_and_deleted(agor: Run):
    assert agor("credential", "list").stdout.startswith("There are none.")
    url = "https://llm.example.com/v1"
    done = agor(
        "credential", "set", KEY, "--base-url", url, "--agent", "claude-code", given=f"{VALUE}\n"
    )
    assert (done.returncode, done.stdout) == (0, f"{KEY} is kept (…WXYZ), your own\n")
    agor("credential", "set", KEY, "--team", given="the-teams-own-value")
    own, team = agor("credential", "list").stdout.splitlines()
    assert f"{KEY}  …WXYZ  your own  for claude-code  {url}  never used" == own
    assert "…alue  team, set by " in team
    assert "not used: you have your own" in team
    [first, second] = json.loads(agor("credential", "list", "--json").stdout)
    assert (first["last_four"], second["whose"]) == ("WXYZ", "team")
    done = agor("credential", "rotate")
    assert done.returncode == 0
    assert "version 2 of the master key: 2 credentials are sealed with it, 0 are not" in done.stdout
    assert json.loads(agor("credential", "rotate", "--json").stdout)["version"] == 3
    assert agor("credential", "delete", KEY).stdout == f"{KEY} is deleted\n"
    done = agor("credential", "delete", KEY)
    assert (done.returncode, done.stderr) == (1, f"error: you have no credential '{KEY}'\n")
    assert agor("credential", "delete", KEY, "--team").returncode == 0


def test_a_value_on_the_command_line_is_refused_and_not_repeated(agor: Run):
    for arguments in (
        (KEY, VALUE),
        (VALUE, KEY, "x"),
        (KEY, f"--value={VALUE}"),
        (KEY, "-v", VALUE),
    ):
        done = agor("credential", "set", *arguments)
        assert done.returncode == 1
        assert "does not belong on the command line" in done.stderr
    assert agor("credential", "list").stdout.startswith("There are none.")


@pytest.mark.parametrize(
    ("given", "said"),
    [("", "there is no value"), ("\n", "there is no value"), (f"{VALUE}\n\n", "white space"),
     (f" {VALUE}", "white space"), (f"{VALUE}\nx", "line break"), ("x" * 20_000, "16384")],
)  # fmt: skip
def test_what_is_no_value_is_refused(agor: Run, given: str, said: str):
    done = agor("credential", "set", KEY, given=given)
    assert done.returncode == 1
    assert said in done.stderr


def test_in_a_terminal_it_is_typed_unseen(installed: Path, mark: Mark, daemon: DaemonProcess):
    home = {"AGOR_HOME": str(daemon.home.folder)}
    command = [str(installed / "agor"), "credential", "set", KEY]
    with terminal(command, mark, home) as shown:
        shown.wait_for(f"{KEY}: ")
        shown.type(f"{VALUE}\n")
        assert shown.wait_ended() == 0
        assert f"{KEY} is kept (…WXYZ)" in shown.text
        assert VALUE not in shown.text
    with terminal([*command[:2], "delete", KEY], mark, home) as shown:
        assert shown.wait_ended() == 0


def test_the_doctor_flies_a_canary(agor: Run):
    done = agor("doctor", "--canary")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "All is well."
    assert "was stored, given to a task, and deleted" in done.stdout


def test_without_a_daemon_the_doctor_says_how_to_start_one(agor: Run, daemon: DaemonProcess):
    daemon.stop()
    done = agor("doctor", "--canary")
    assert done.returncode == 1
    assert "agor daemon start" in done.stderr
    assert daemon.home.running() is None
    daemon.start()
