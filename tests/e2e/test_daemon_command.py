"""`agor daemon` as people and scripts meet it: the real daemon, and ones that misbehave."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import agor
from agor.cli.background import ask
from agor.cli.log_file import ROTATE_AT
from tests.e2e.terminal import terminal
from tests.integration.control_groups import remove_groups
from tests.integration.processes import PATIENCE
from tests.nursery import run_agor

Daemon = Callable[..., "subprocess.CompletedProcess[str]"]
STAND_IN = Path(__file__).parent / "stand_in"


@pytest.fixture
def home(tmp_path_factory, mark) -> Iterator[Path]:
    """A folder with a name that is short enough for sockets."""
    made: Path = tmp_path_factory.mktemp("d") / "h"
    yield made
    mark.end_all()
    remove_groups(made / "run")


@pytest.fixture
def daemon(mark, home) -> Daemon:
    """Run it with these arguments; `how` puts a stand-in in the real daemon's place."""

    def run(*arguments: str, how: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        env = mark.env | environment(home, how) | env
        return run_agor("daemon", *arguments, env=env, timeout=2 * PATIENCE)

    return run


def environment(home: Path, how: str) -> dict[str, str]:
    # What a daemon starts does not carry the mark; it ends by itself, and soon.
    plain = {"AGOR_HOME": str(home), "AGOR_EXECUTION__ORPHAN_TIMEOUT_MS": "1000"}
    return plain | {"PYTHONPATH": str(STAND_IN), "STAND_IN": how} if how else plain


def described(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / "run" / "daemon.json").read_text())
    return found


# ── the real one ─────────────────────────────────────────────────────────────────────────────────


def test_it_is_started_looked_at_and_stopped(daemon, home, mark):
    done = daemon("status")
    assert (done.returncode, done.stdout) == (3, f"● agor is not running\n  home     {home}\n")
    done = daemon("url")
    assert (done.returncode, done.stdout) == (3, "")
    assert "agor daemon start" in done.stderr
    assert not home.exists()

    done = daemon("start", "--port", "0")
    assert done.returncode == 0, done.stderr
    it = described(home)
    assert done.stdout == f"agor is running: {it['url']} (process {it['pid']})\n"
    assert done.stderr == ""
    assert ask(it["url"], "/readyz")[0] == 200
    assert it["version"] == agor.__version__
    assert os.getsid(it["pid"]) == it["pid"], "it has a session of its own"
    if os.geteuid() == 0:  # A daemon cannot be dumped, and only root may look at such a process.
        assert Path(f"/proc/{it['pid']}/cwd").readlink() == Path("/")

    done = daemon("url")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{it['url']}\n", "")
    done = daemon("status")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "● agor is running"
    assert f"  url      {it['url']}" in lines
    assert f"  version  {agor.__version__}" in lines
    assert any(line.startswith(f"  process  {it['pid']}, for ") for line in lines)
    assert any(line.startswith("  ✓ store: ") for line in lines)
    assert "\x1b" not in done.stdout, "no colours where there is no terminal"

    done = daemon("start", "--port", "0")
    assert done.returncode == 0
    assert f"agor is running already: {it['url']} (process {it['pid']})" in done.stdout
    assert described(home) == it

    done = daemon("stop")
    assert (done.returncode, done.stdout) == (0, f"agor has stopped (process {it['pid']})\n")
    assert not (home / "run" / "daemon.json").exists()
    assert daemon("status").returncode == 3
    done = daemon("stop")
    assert (done.returncode, done.stdout) == (0, "agor is not running\n")


def test_its_state_is_told_as_json(daemon, home):
    done = daemon("status", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (
        3,
        {"state": "stopped", "home": str(home)},
    )
    daemon("start", "--port", "0")
    done = daemon("status", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    it = described(home)
    assert found["state"] == "running"
    assert {name: found[name] for name in ("url", "pid", "version", "started_at")} == {
        name: it[name] for name in ("url", "pid", "version", "started_at")
    }
    assert found["health"]["status"] == "ok"
    assert "store" in [check["name"] for check in found["health"]["checks"]]
    daemon("stop")


def test_the_token_is_made_at_the_first_start_and_stays(daemon, home):
    daemon("start", "--port", "0")
    token = (home / "token").read_text()
    assert (home / "token").stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700
    first = described(home)
    assert ask(first["url"], "/health", token.strip())[0] == 200
    assert ask(first["url"], "/health", "wrong")[0] == 401
    daemon("restart", "--port", "0")
    assert (home / "token").read_text() == token
    second = described(home)
    assert second["pid"] != first["pid"]
    assert ask(second["url"], "/health", token.strip())[0] == 200
    daemon("stop")
    for path in home.rglob("*"):
        assert (
            path.name == "token"
            or not path.is_file()
            or token.strip().encode() not in (path.read_bytes())
        ), path


def test_a_second_one_on_the_same_home_is_refused_and_the_first_goes_on(daemon, home):
    daemon("start", "--port", "0")
    it = described(home)
    done = daemon("run", "--port", "0")
    assert done.returncode == 1
    assert f"another daemon serves {home} already ({it['url']}, process {it['pid']})" in done.stderr
    assert "Traceback" not in done.stderr
    assert described(home) == it
    assert ask(it["url"], "/readyz")[0] == 200
    daemon("stop")


def test_after_a_kill_it_is_not_believed_to_run_and_starts_again(daemon, home, mark):
    daemon("start", "--port", "0")
    it = described(home)
    os.kill(it["pid"], signal.SIGKILL)
    mark.wait_gone(*mark.bearers() - {it["pid"]})
    assert (home / "run" / "daemon.json").exists()
    assert daemon("status").returncode == 3
    assert daemon("stop").stdout == "agor is not running\n"
    done = daemon("start", "--port", "0")
    assert done.returncode == 0, done.stderr
    assert described(home)["pid"] != it["pid"]
    assert daemon("stop").returncode == 0


def test_of_several_started_at_once_one_runs_and_all_say_which(installed, mark, home):
    command = [installed / "agor", "daemon", "start", "--port", "0"]
    starting = [
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=mark.env | environment(home, ""),
        )
        for _ in range(3)
    ]
    outputs = [each.communicate(timeout=3 * PATIENCE)[0] for each in starting]
    it = described(home)
    assert [each.returncode for each in starting] == [0, 0, 0]
    assert all(f"{it['url']} (process {it['pid']})" in output for output in outputs)
    assert sum("already" not in output for output in outputs) == 1
    os.kill(it["pid"], signal.SIGTERM)


def test_in_the_foreground_it_runs_until_ctrl_c(installed, mark, home):
    command = [str(installed / "agor"), "daemon", "run", "--port", "0"]
    with terminal(command, mark, environment(home, "")) as shown:
        shown.wait_for("daemon_ready")
        assert described(home)["url"] in shown.text
        shown.type("\x03")
        assert shown.wait_ended() == 0
        assert "Traceback" not in shown.text
    assert not (home / "run" / "daemon.json").exists()


def test_a_port_in_use_is_told_by_who_starts_it(daemon, home, tmp_path_factory):
    daemon("start", "--port", "0")
    url = described(home)["url"]
    port = url.rpartition(":")[2]
    other = tmp_path_factory.mktemp("o") / "h"
    done = daemon("start", "--port", port, AGOR_HOME=str(other))
    assert done.returncode == 1
    assert "the daemon has ended while it started (exit code 1)" in done.stderr
    assert port in done.stderr
    assert "use" in done.stderr
    assert "Traceback" not in done.stderr
    daemon("stop")


# ── settings ─────────────────────────────────────────────────────────────────────────────────────


def test_a_changed_setting_takes_effect_after_a_restart(daemon, installed, home, mark):
    daemon("start", "--port", "0", how="well")
    command = [installed / "agor", "config", "set", "execution.max_executors", "3"]
    env = mark.env | environment(home, "well")
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=env)
    assert done.stderr == "It takes effect after: agor daemon restart\n"
    assert "with 3 executors" not in daemon("logs").stdout
    done = daemon("restart", "--port", "0", how="well")
    assert done.returncode == 0
    stopped, running = done.stdout.splitlines()
    assert stopped.startswith("agor has stopped (process ")
    assert running.startswith("agor is running: http")
    lines = daemon("logs").stdout.splitlines()
    assert lines == ["serving with 10 executors", "ended in order", "serving with 3 executors"]
    assert daemon("logs", "-n", "1").stdout == "serving with 3 executors\n"


def test_wrong_settings_do_not_cost_the_daemon_that_runs(daemon, home):
    daemon("start", "--port", "0", how="well")
    it = described(home)
    (home / "config.yaml").write_text("execution:\n  max_executors: many\n")
    for command in ("restart", "start"):
        done = daemon(command, "--port", "0", how="well")
        assert done.returncode == 1
        assert "config.yaml, line 2: execution.max_executors cannot be 'many'" in done.stderr
    assert described(home) == it
    assert ask(it["url"], "/readyz")[0] == 200
    assert daemon("status").returncode == 0
    assert daemon("stop").returncode == 0, "it can be stopped all the same"


def test_restarting_one_that_does_not_run_starts_it(daemon, home):
    done = daemon("restart", "--port", "0", how="well")
    assert done.returncode == 0
    assert done.stdout.startswith("agor is running: ")


@pytest.mark.parametrize(
    "arguments",
    [["--host", "example.org"], ["--port", "70000"], ["--port", "x"]],
)
def test_wrong_options_have_exit_code_two_and_start_nothing(daemon, home, arguments):
    for command in ("run", "start", "restart"):
        done = daemon(command, *arguments)
        assert done.returncode == 2
        assert arguments[0] in done.stderr
    assert not home.exists()


# ── ones that misbehave ──────────────────────────────────────────────────────────────────────────


def test_one_that_ends_while_it_starts_is_told_with_its_last_words(daemon, home):
    (home / "logs").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    (home / "logs" / "daemon.log").write_text("words of another one\n")
    done = daemon("start", "--port", "0", how="dies")
    assert done.returncode == 1
    assert "the daemon has ended while it started (exit code 1)" in done.stderr
    assert "last words" in done.stderr
    assert "error: the database is of a newer version\nInstall a newer agor.\n" in done.stderr
    assert "words of another one" not in done.stderr
    assert "\x1b" not in done.stderr
    done = daemon("start", "--port", "0", how="killed")
    assert done.returncode == 1
    assert "(signal 9)\nIt said nothing." in done.stderr


def test_one_that_does_not_end_is_killed_if_that_is_wanted(daemon, home):
    daemon("start", "--port", "0", how="stubborn")
    it = described(home)
    short = {"AGOR_DAEMON__STOP_TIMEOUT_MS": "1", "AGOR_EXECUTION__STOP_TIMEOUT_MS": "0"}
    done = daemon("stop", **short)
    assert done.returncode == 1
    assert f"the daemon (process {it['pid']}) was asked to end and has not" in done.stderr
    assert "agor daemon stop --force" in done.stderr
    assert described(home) == it
    done = daemon("stop", "--force", **short)
    assert (done.returncode, done.stdout) == (0, f"agor has stopped (process {it['pid']})\n")
    assert daemon("status").returncode == 3


def test_one_that_does_not_answer_is_told(daemon, home):
    daemon("start", "--port", "0", how="mute")
    done = daemon("status")
    assert done.returncode == 1
    assert "agor runs, but does not answer" in done.stdout
    assert "it answers with status 500" in done.stdout
    os.kill(described(home)["pid"], signal.SIGSTOP)
    done = daemon("status", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["state"] == "unresponsive"


@contextlib.contextmanager
def in_front(installed, home, mark, how) -> Iterator[subprocess.Popen[str]]:
    """Run a daemon that behaves so in the foreground, until it serves."""
    command = [installed / "agor", "daemon", "run", "--port", "0"]
    env = mark.env | environment(home, how)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "serving with 10 executors\n"
        yield process


def test_one_that_is_still_starting_is_told_and_can_be_stopped(installed, daemon, home, mark):
    with in_front(installed, home, mark, "undescribed") as starting:
        done = daemon("status")
        assert done.returncode == 1
        assert "agor is starting" in done.stdout
        assert daemon("stop").stdout == f"agor has stopped (process {starting.pid})\n"


def test_one_that_takes_its_time_to_end_is_said_to_be_ending(installed, daemon, home, mark):
    with in_front(installed, home, mark, "lingers") as ending:
        ending.terminate()
        assert ending.stderr is not None
        assert ending.stderr.readline() == "lingering\n"
        done = daemon("status")
        assert (done.returncode, "agor is ending" in done.stdout) == (1, True)
        assert json.loads(daemon("status", "--json").stdout)["state"] == "ending"
        done = daemon("url")
        assert (done.returncode, done.stdout) == (1, "")
        assert "agor is ending. Try again" in done.stderr
        ending.kill()


def test_what_it_says_of_itself_cannot_steer_the_terminal(daemon):
    daemon("start", "--port", "0", how="well")
    done = daemon("status")
    assert "  ✗ pool: ill" in done.stdout
    assert "\x1b" not in done.stdout


def test_one_of_another_version_is_told(daemon):
    daemon("start", "--port", "0", how="old")
    assert f"0.0.0-old (this command is {agor.__version__}" in daemon("status").stdout


# ── its log ──────────────────────────────────────────────────────────────────────────────────────


def test_without_a_log_it_is_said_where_one_would_be(daemon, home):
    done = daemon("logs")
    assert done.returncode == 1
    assert f"there is no log at {home}/logs/daemon.log" in done.stderr


def test_a_large_log_is_put_aside_at_the_next_start(daemon, home):
    (home / "logs").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    log = home / "logs" / "daemon.log"
    with log.open("wb") as file:
        file.truncate(ROTATE_AT + 1)
    daemon("start", "--port", "0", how="well")
    assert log.read_text() == "serving with 10 executors\n"
    assert log.stat().st_mode & 0o777 == 0o600
    assert (home / "logs" / "daemon.log.1").stat().st_size == ROTATE_AT + 1


def test_the_log_is_followed_over_a_restart_until_ctrl_c(installed, daemon, home, mark):
    daemon("start", "--port", "0", how="well")
    command = [str(installed / "agor"), "daemon", "logs", "-f"]
    with terminal(command, mark, environment(home, "")) as shown:
        shown.wait_for("serving with 10 executors")
        daemon("restart", "--port", "0", how="well", AGOR_EXECUTION__MAX_EXECUTORS="4")
        shown.wait_for("serving with 4 executors")
        assert "ended in order" in shown.text
        shown.type("\x03")
        assert shown.wait_ended() == 130
        assert "Traceback" not in shown.text
