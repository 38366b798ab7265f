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
def asking(agor: Agor, tmp_path: Path) -> Iterator[Terminal]:
    """A restore that has asked whether to go on."""
    backup = tmp_path / "b.tar"
    done = agor("backup", str(backup))
    assert done.returncode == 0, done.stderr
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


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM", "no"])
def test_it_can_be_called_off(agor: Agor, asking: Terminal, how: str):
    if how == "Ctrl-C":
        asking.type("\x03")
    elif how == "SIGTERM":
        running = Home(agor.home).running()
        assert running is not None
        assert running.process is not None
        os.kill(running.process.pid, signal.SIGTERM)
    else:
        asking.type("n\n")
    assert asking.wait_ended() == 1, asking.text
    assert "Nothing was changed." in asking.text
    left = {each.name for each in agor.home.iterdir()}
    assert not any(name.startswith((".restore", "before-restore")) for name in left), left


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
