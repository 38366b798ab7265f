"""`agor config` as people and scripts meet it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agor.config.keys import KEYS
from tests.e2e.terminal import terminal
from tests.nursery import run_agor

Config = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def config(mark, home) -> Config:
    """Run it with these arguments, for a home of its own."""

    def run(*arguments: str, given: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        env = mark.env | {"AGOR_HOME": str(home)} | env
        return run_agor("config", *arguments, given=given, env=env)

    return run


def said(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def test_what_is_set_is_got_and_what_is_unset_is_the_default_again(config, home):
    assert said(config("get", "execution.use_executor")) == (0, "true\n", "")
    assert said(config("set", "execution.use_executor", "false")) == (
        0,
        "execution.use_executor = false\n",
        "",
    )
    assert said(config("get", "execution.use_executor")) == (0, "false\n", "")
    assert (home / "config.yaml").read_text() == "execution:\n  use_executor: false\n"
    assert said(config("unset", "execution.use_executor")) == (
        0,
        "execution.use_executor = true (the default)\n",
        "",
    )
    assert said(config("get", "execution.use_executor")) == (0, "true\n", "")
    done = config("unset", "execution.use_executor")
    assert said(done) == (0, f"execution.use_executor is not in {home}/config.yaml\n", "")


def test_the_path_is_told_and_looking_makes_nothing(config, home):
    assert said(config("path")) == (0, f"{home}/config.yaml\n", "")
    assert config("list").returncode == 0
    assert not home.exists()


def test_comments_stay(config, home):
    home.mkdir(mode=0o700)
    text = "# ours\nexecution:   # see the wiki\n    use_executor:   true  # for now\n"
    (home / "config.yaml").write_text(text)
    assert config("set", "execution.use_executor", "false").returncode == 0
    assert (home / "config.yaml").read_text() == text.replace("true", "false")


def test_all_settings_are_listed_with_their_value_and_origin(config):
    config("set", "execution.limits.memory", "2G")
    done = config("list", AGOR_DAEMON__PORT="4040")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["setting", *KEYS]
    by_name = {line.split()[0]: line for line in lines}
    assert "2G  " in by_name["execution.limits.memory"]
    assert "file (default: none)" in by_name["execution.limits.memory"]
    assert "4040 " in by_name["daemon.port"]
    assert "variable (default: 0)" in by_name["daemon.port"]
    assert " default " in by_name["execution.max_executors"]
    for name, key in KEYS.items():
        assert by_name[name].endswith(key.meaning)
    assert "\x1b" not in done.stdout, "no colours where there is no terminal"


@pytest.mark.parametrize("width", ["80", "200"])
def test_in_a_terminal_the_list_fits(installed, mark, home, width):
    env = {"COLUMNS": width, "AGOR_HOME": str(home)}
    with terminal([str(installed / "agor"), "config", "list"], mark, env) as shown:
        assert shown.wait_ended() == 0
        lines = [line for line in shown.text.splitlines() if "agor.db" not in line]
        assert max(map(len, lines)) <= int(width)
        assert "\x1b[" in shown._seen.decode()


def test_a_wrong_name_is_refused_with_the_allowed_ones_and_a_near_match(config, home):
    for command in (["get"], ["set"], ["unset"]):
        value = ["4"] if command == ["set"] else []
        done = config(*command, "execution.max_executers", *value)
        assert done.returncode == 1
        assert done.stdout == ""
        assert "there is no setting 'execution.max_executers'" in done.stderr
        assert "Did you mean execution.max_executors?" in done.stderr
        assert "spare_executors" in done.stderr
    assert not (home / "config.yaml").exists()


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("execution.max_executors", "-5", "a whole number from 1 to 10000"),
        ("execution.use_executor", "maybe", "true or false"),
        ("log.level", "loud", "debug, info, warning or error"),
        ("execution.limits.memory", "1", "from 16M"),
    ],
)
def test_a_wrong_value_is_refused_and_the_file_left_alone(config, home, name, value, allowed):
    config("set", "daemon.port", "4040")
    before = (home / "config.yaml").read_text()
    done = config("set", name, value)
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"{name} cannot be" in done.stderr
    assert value in done.stderr
    assert allowed in done.stderr
    assert (home / "config.yaml").read_text() == before


def test_a_password_is_shown_nowhere_and_can_be_set_without_being_seen(config, home):
    done = config("set", "database.url", "-", given="postgresql://u:SECRET@h/d\n")
    assert said(done) == (0, "database.url = postgresql://u:***@h/d\n", "")
    assert "u:SECRET@h" in (home / "config.yaml").read_text()
    assert (home / "config.yaml").stat().st_mode & 0o777 == 0o600
    done = config("get", "database.url")
    assert said(done) == (0, "postgresql://u:***@h/d\n", "The password is hidden.\n")
    for done in (
        config("list"),
        config("set", "database.url", "mysql://u:SECRET@h/d"),
        config("get", "database.url", AGOR_DATABASE__URL="http://u:SECRET@h/d"),
        config("unset", "database.url"),
    ):
        assert "SECRET" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_a_password_typed_in_a_terminal_is_not_echoed(installed, mark, home):
    command = [str(installed / "agor"), "config", "set", "database.url", "-"]
    with terminal(command, mark, {"AGOR_HOME": str(home)}) as shown:
        shown.wait_for("database.url: ")
        shown.type("postgresql://u:SECRET@h/d\n")
        assert shown.wait_ended() == 0
        assert "database.url = postgresql://u:***@h/d" in shown.text
        assert "SECRET" not in shown.text


def test_what_keeps_a_change_from_its_effect_is_told(config, home):
    done = config("set", "daemon.port", "4040", AGOR_DAEMON__PORT="1")
    assert done.returncode == 0
    assert "AGOR_DAEMON__PORT overrides it" in done.stderr
    (home / "config.yaml").write_text("log:\n  level: loud\n")
    done = config("set", "daemon.port", "4040")
    assert done.returncode == 0
    assert "line 2: log.level cannot be 'loud'" in done.stderr
    assert (home / "config.yaml").read_text() == "log:\n  level: loud\ndaemon:\n  port: 4040\n"


@pytest.mark.parametrize("text", ["log: [", "log:\n  level: loud\n", "lg: {}\n"])
def test_a_wrong_file_is_told_with_its_line(config, home, text):
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(text)
    for arguments in (["list"], ["get", "daemon.port"]):
        done = config(*arguments)
        assert done.returncode == 1
        assert f"{home}/config.yaml, line " in done.stderr
        assert "Traceback" not in done.stderr


def test_a_wrong_variable_is_told(config):
    done = config("list", AGOR_EXECUTION__MAX_EXECUTERS="4")
    assert done.returncode == 1
    assert "Did you mean AGOR_EXECUTION__MAX_EXECUTORS?" in done.stderr


@pytest.mark.parametrize("arguments", [["set", "daemon.port"], ["get"], ["nonsense"]])
def test_a_command_line_that_means_nothing_has_exit_code_two(config, arguments):
    done = config(*arguments)
    assert done.returncode == 2
    assert "Usage: agor config" in done.stderr


def test_a_name_cannot_steer_the_terminal(config):
    done = config("get", "a\x1b]0;b")
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
