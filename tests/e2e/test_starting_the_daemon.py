"""Commands start the daemon that they need, and check all they can before they ask for anything."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agor.home import Home
from tests.e2e.people_commands import Agor
from tests.e2e.terminal import Terminal, terminal
from tests.e2e.test_daemon_command import environment
from tests.integration.control_groups import remove_groups
from tests.integration.processes import PATIENCE, Mark

LONG = 3 * PATIENCE
STARTED = "The daemon was started: http://127.0.0.1:"


@pytest.fixture
def fresh(installed: Path, mark: Mark, temporary_folder: Path) -> Iterator[Agor]:
    """The command, and a home that is not there yet."""
    agor = Agor(installed / "agor", temporary_folder / "h", mark)
    yield agor
    agor("daemon", "stop", "--force")
    remove_groups(agor.home / "run")


@contextlib.contextmanager
def typing(agor: Agor, *arguments: str) -> Iterator[Terminal]:
    command = [str(agor.command), *arguments]
    with terminal(command, agor.mark, agor.env, end_all=False) as screen:
        yield screen


def running(agor: Agor) -> bool:
    return Home(agor.home).running() is not None


# ── starting it ──────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_starts_it_and_the_next_command_finds_it(fresh: Agor, tmp_path: Path):
    done = fresh("run", "--agent", "scripted", "hello there", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("hello there\n")
    assert STARTED in done.stderr
    done = fresh("session", "list")
    assert (done.returncode, done.stderr) == (0, "")
    # The variable is the setting for one run.
    fresh.env["AGOR_RUN__AGENT"] = "nobody"
    again = fresh("run", "hello", cwd=tmp_path)
    assert again.returncode == 1
    assert "there is no agent 'nobody'" in again.stderr


@pytest.mark.parametrize(
    "command",
    ["session list", "permission list", "terminal list", "user add ada", "token list", "rule list",
     "credential list", "repo list", "worktree list", "audit list"],
)  # fmt: skip
def test_commands_that_ask_it_start_it(fresh: Agor, command: str):
    done = fresh(*command.split())
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(STARTED)
    assert running(fresh)


@pytest.mark.parametrize(
    "command",
    ["daemon status", "daemon url", "daemon stop", "daemon logs", "doctor --canary", "audit verify",
     "config list", "agent list", "agent check", "run", "credential set", "--version"],
)  # fmt: skip
def test_others_do_not(fresh: Agor, command: str):
    fresh(*command.split())
    assert not running(fresh)


def test_it_is_not_started_for_somebody_who_names_another_one(fresh: Agor):
    made = ("token", "create", "x", "--user", "ada", "--password-stdin")
    assert "no daemon answers" in fresh.refused(*made, "--url", "http://127.0.0.1:9", given="x")
    assert not running(fresh)


def test_settings_that_are_wrong_are_told_instead(fresh: Agor):
    Home(fresh.home).prepare()
    (fresh.home / "config.yaml").write_text("daemon:\n  port: many\n")
    told = fresh.refused("session", "list")
    assert "config.yaml, line 2: daemon.port cannot be 'many'" in told
    assert "has ended" not in told


def test_one_that_is_ending_is_waited_for_and_followed_by_another(fresh: Agor, installed: Path):
    command = [str(installed / "agor"), "daemon", "run", "--port", "0"]
    env = os.environ | fresh.mark.env | environment(fresh.home, "lingers")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as ending:
        assert ending.stderr is not None
        assert ending.stderr.readline() == "serving with 10 executors\n"
        ending.terminate()
        assert ending.stderr.readline() == "lingering\n"
        with typing(fresh, "session", "list") as screen:
            screen.wait_for("starting the daemon")
            ending.kill()
            assert screen.wait_ended(LONG) == 0, screen.text
            assert STARTED in screen.text


def test_two_homes_have_their_daemons_at_the_same_time(fresh: Agor, temporary_folder: Path):
    other = Agor(fresh.command, temporary_folder / "o", fresh.mark)
    try:
        for agor in (fresh, other):
            agor.done("session", "list")
        assert fresh.done("daemon", "url") != other.done("daemon", "url")
        found = [json.loads(each.done("daemon", "status", "--json")) for each in (fresh, other)]
        assert [each["state"] for each in found] == ["running", "running"]
    finally:
        other("daemon", "stop", "--force")
        remove_groups(other.home / "run")


# ── checking before asking ───────────────────────────────────────────────────────────────────────


def test_a_key_is_asked_for_when_there_is_a_daemon_that_can_keep_it(fresh: Agor):
    with typing(fresh, "credential", "set", "ANTHROPIC_API_KEY") as screen:
        screen.wait_for("ANTHROPIC_API_KEY: ", patience=LONG)
        assert running(fresh)
        screen.type("sk-ant-of-nobody-WXYZ\n")
        assert screen.wait_ended() == 0
        assert "ANTHROPIC_API_KEY is kept (…WXYZ), your own" in screen.text


def test_no_key_is_asked_for_where_the_daemon_cannot_start(fresh: Agor):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        fresh.env["AGOR_DAEMON__PORT"] = str(taken.getsockname()[1])
        with typing(fresh, "credential", "set", "ANTHROPIC_API_KEY") as screen:
            assert screen.wait_ended(LONG) == 1
    assert "in use by another program" in screen.text
    assert "ANTHROPIC_API_KEY: " not in screen.text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["credential", "set", "NOT-A-NAME"], "cannot be the name of a credential"),
        (["credential", "set", "A_KEY", "--base-url", "nowhere"], "base_url"),
        (["credential", "set", "A_KEY", "--agent", "nobody"], "there is no such agent"),
        (["user", "add", "not a name"], "name"),
        (["user", "add", "daemon"], "the audit log"),
        (["user", "add", "ada", "--unix-user", "nobody-of-this-name"], "nobody-of-this-name"),
        (["user", "set-password", "ada"], "there is no user 'ada'"),
        (["token", "create", "", "--user", "ada"], "name"),
        (["token", "create", "x", "--user", "ada", "--url", "http://127.0.0.1:9"], "no daemon"),
        (["session", "delete", "abcdef"], "session"),
    ],
)
def test_nothing_is_asked_for_in_vain(agor: Agor, arguments: list[str], told: str):
    with typing(agor, *arguments) as screen:
        assert screen.wait_ended() == 1, screen.text
    assert screen.text.startswith("error: ")
    assert told in screen.text


def test_checking_adds_nobody_and_keeps_nothing(agor: Agor):
    for command in (["user", "add", "eve"], ["credential", "set", "A_KEY"]):
        with typing(agor, *command) as screen:
            screen.wait_for(": ")
            screen.type("\x03")
            assert screen.wait_ended() != 0
    assert "eve" not in agor.users()
    assert "A_KEY" not in agor.done("credential", "list")
    assert "user.added" not in agor.done("audit", "list")


def test_a_password_that_is_too_short_is_not_asked_for_again(agor: Agor):
    with typing(agor, "user", "add", "eve") as screen:
        screen.wait_for("New password for eve: ")
        screen.type("short\n")
        assert screen.wait_ended() == 1
    assert "at least 10 characters" in screen.text
    assert "Again" not in screen.text
