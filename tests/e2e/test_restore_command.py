"""`agor restore` asks first: meanwhile nobody takes it for a daemon, and it can be called off."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agor.home import Home
from tests.database import put_database
from tests.e2e.people_commands import Agor
from tests.e2e.terminal import Terminal, terminal
from tests.integration.processes import Mark


@pytest.fixture
def agor(installed: Path, mark: Mark, temporary_folder: Path) -> Agor:
    """The command, and a home with a database."""
    home = Home(temporary_folder / "h")
    home.prepare()
    put_database(home.folder)
    return Agor(installed / "agor", home.folder, mark)


@pytest.fixture
def backup(agor: Agor, tmp_path: Path) -> Path:
    """A backup of the home, with a master key."""
    made = tmp_path / "b.tar"
    key = agor.home / "master.key"
    key.touch(0o600)
    key.write_text("1:secret\n")
    done = agor("backup", str(made), "--include-master-key")
    assert done.returncode == 0, done.stderr
    key.unlink()
    return made


@pytest.fixture
def asking(agor: Agor, backup: Path) -> Iterator[Terminal]:
    """A restore that has asked whether to go on."""
    with terminal([str(agor.command), "restore", str(backup)], agor.mark, agor.env) as screen:
        screen.wait_for("Go on?")
        yield screen


def test_other_commands_say_that_a_backup_is_being_restored(agor: Agor, asking: Terminal):
    told = "a backup is being restored"
    for command in ("session list", "daemon start", "daemon stop", "daemon run", "daemon url"):
        done = agor(*command.split())
        assert done.returncode == 1, command
        assert told in done.stderr, command
    done = agor("daemon", "status")
    assert (done.returncode, told in done.stdout) == (1, True)
    assert json.loads(agor("daemon", "status", "--json").stdout)["state"] == "restoring"
    asking.type("y\n")
    assert asking.wait_ended() == 0, asking.text
    assert "Restored." in asking.text


def restorer(agor: Agor) -> int:
    """The process that restores."""
    running = Home(agor.home).running()
    assert running is not None
    assert running.process is not None
    return running.process.pid


def left_by_restores(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if "restore-" in each.name]


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM", "SIGHUP", "no"])
def test_it_can_be_called_off(agor: Agor, asking: Terminal, how: str):
    if how == "Ctrl-C":
        asking.type("\x03")
    elif how == "no":
        asking.type("n\n")
    else:
        os.kill(restorer(agor), signal.Signals[how])
    assert asking.wait_ended() == 1, asking.text
    assert "Nothing was changed." in asking.text
    assert left_by_restores(agor.home) == []


def test_it_is_called_off_when_its_terminal_is_closed(agor: Agor, asking: Terminal):
    assert left_by_restores(agor.home) != []
    # The other side of the terminal is closed.
    with Path("/dev/null").open("rb") as nothing:
        os.dup2(nothing.fileno(), asking._fd)
    assert asking.wait_ended() != 0
    assert left_by_restores(agor.home) == []


def test_the_next_restore_removes_what_a_killed_one_left(
    agor: Agor, backup: Path, temporary_folder: Path
):
    elsewhere = temporary_folder / "databases"
    agor.env["AGOR_DATABASE__URL"] = f"sqlite:///{elsewhere}/team.db"
    command = [str(agor.command), "restore", str(backup)]
    with terminal(command, agor.mark, agor.env) as screen:
        screen.wait_for("Go on?")
        # A restore beside the same database that was killed after its plan was written needs this.
        other = elsewhere / ".other.db.restore-x"
        other.mkdir()
        (other / "database").touch()
        os.kill(restorer(agor), signal.SIGKILL)
        screen.wait_ended()
    assert [path.name for path in agor.home.glob(".restore-*/master.key")] == ["master.key"]
    assert len(list(elsewhere.glob(".team.db.restore-*/database"))) == 1
    done = agor("restore", str(backup), "--yes")
    assert done.returncode == 0, done.stderr
    assert [each for each in left_by_restores(agor.home) if each.startswith(".")] == []
    assert sorted(each.name for each in elsewhere.iterdir()) == [other.name, "team.db"]


def test_a_daemon_without_its_master_key_starts_and_says_what_is_wrong(agor: Agor, tmp_path: Path):
    backup = str(tmp_path / "b.tar")
    assert agor("credential", "set", "ANTHROPIC_API_KEY", given="sk-a-key").returncode == 0
    assert agor("backup", backup).returncode == 0
    agor("daemon", "stop")
    (agor.home / "master.key").unlink()
    done = agor("restore", backup, "--yes")
    assert done.returncode == 0, done.stderr
    assert "The master key is missing" in done.stderr
    try:
        done = agor("daemon", "start")
        assert done.returncode == 0, done.stderr
        assert "Not all is well with the daemon (credentials)" in done.stderr
        assert "master.key" in agor("daemon", "status").stdout
    finally:
        agor("daemon", "stop", "--force")
