"""`agor audit` as people and scripts meet it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.daemon.daemon_process import DaemonProcess, running_daemon
from tests.integration.processes import PATIENCE
from tests.nursery import run_agor

Audit = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    with running_daemon() as running:
        yield running


@pytest.fixture
def audit(mark, daemon: DaemonProcess) -> Audit:
    """Run it with these arguments, for the home of the daemon."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        env = mark.env | {"AGOR_HOME": str(daemon.home.folder)}
        return run_agor("audit", *arguments, env=env)

    return run


def tamper(daemon: DaemonProcess, *changes: str) -> None:
    database = sqlite3.connect(daemon.home.folder / "agor.db")
    for trigger in ("audit_keeps_what_it_has", "audit_loses_nothing"):
        database.execute(f"DROP TRIGGER {trigger}")
    for change in changes:
        database.execute(change)
    database.commit()
    database.close()


def test_what_happened_is_a_line_each_the_newest_first(audit: Audit, daemon: DaemonProcess):
    daemon.restart()
    done = audit("list")
    assert done.returncode == 0, done.stderr
    actions = [line.split()[4] for line in done.stdout.splitlines()]
    assert actions == ["daemon.started", "daemon.stopped", "daemon.started"]
    assert done.stderr == ""


def test_it_is_asked_by_person_action_and_time_and_given_as_json(
    audit: Audit, daemon: DaemonProcess
):
    daemon.restart()
    found = audit("list", "--action", "daemon.started", "--json")
    entries = [json.loads(line) for line in found.stdout.splitlines()]
    assert [entry["number"] for entry in entries] == [3, 1]
    assert entries[0]["detail"]["version"]
    for arguments, count in (
        (("--user", "daemon", "--since", "1h"), 3),
        (("--since", "2020-01-01", "--until", "now"), 3),
        (("--until", "1d"), 0),
        (("--limit", "2"), 2),
        (("--action", "executor."), 0),
    ):
        done = audit("list", "--json", *arguments)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == count, arguments
    assert "--limit" in audit("list", "--limit", "2").stderr
    assert audit("list", "--until", "1d").stderr == "Nothing.\n"


def test_what_cannot_be_meant_is_said_to_be_so(audit: Audit):
    done = audit("list", "--since", "yesterday evening")
    assert done.returncode == 2
    assert "2026-11-16" in done.stderr
    done = audit("list", "--user", "nobody at all")
    assert done.returncode == 1
    assert "nobody at all" in done.stderr


@pytest.mark.parametrize("running", [True, False], ids=["with a daemon", "without one"])
def test_a_log_that_is_right_is_said_to_be_right(audit: Audit, daemon: DaemonProcess, running):
    if not running:
        daemon.stop()
    done = audit("verify")
    assert done.returncode == 0, done.stderr
    count = 1 if running else 2
    assert f"{count} record" in done.stdout
    assert ("from the database" in done.stdout) is not running
    found = json.loads(audit("verify", "--json").stdout)
    assert (found["checked"], found["anchors"], found["fault"]) == (count, count, None)


@pytest.mark.parametrize("running", [True, False], ids=["with a daemon", "without one"])
@pytest.mark.parametrize(
    ("change", "words", "kind"),
    [
        ("UPDATE audit SET actor = 'nobody' WHERE number = 2", "record 2", "changed"),
        ("DELETE FROM audit WHERE number = 2", "record 2 is missing", "missing"),
        ("DELETE FROM audit WHERE number >= 2", "ends with record 1", "missing"),
    ],
)
def test_a_log_that_was_changed_is_named_and_the_exit_code_says_so(
    audit: Audit, daemon: DaemonProcess, running: bool, change: str, words: str, kind: str
):
    daemon.restart()
    if not running:
        daemon.kill()
    tamper(daemon, change)
    done = audit("verify")
    assert done.returncode == 1
    assert words in done.stdout
    assert kind in done.stdout
    assert done.stderr
    done = audit("verify", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["fault"]["kind"] == kind


def test_a_home_without_a_database_is_said_to_have_none(installed: Path, mark, tmp_path: Path):
    done = subprocess.run(
        [installed / "agor", "audit", "verify"],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
        env=mark.env | {"AGOR_HOME": str(tmp_path / "home")},
    )  # fmt: skip
    assert done.returncode == 1
    assert "there is no database" in done.stderr
    assert not (tmp_path / "home").exists()
