"""`agor rule` as people and scripts meet it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.integration.daemon.daemon_process import DaemonProcess, running_daemon
from tests.nursery import run_agor

Rule = Callable[..., "subprocess.CompletedProcess[str]"]
GIT = ("allow", "Bash", "--input", "command=git status*")


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with running_daemon() as one:
        yield one


@pytest.fixture
def rule(mark, daemon: DaemonProcess) -> Iterator[Rule]:
    """Run it with these arguments; no rule is left at the end."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        env = mark.env | {"AGOR_HOME": str(daemon.home.folder), "COLUMNS": "60"}
        return run_agor("rule", *arguments, env=env)

    yield run
    for each in json.loads(run("list", "--json").stdout):
        run("revoke", each["rule_id"])


def test_a_rule_is_added_listed_exported_and_revoked(rule: Rule):
    assert rule("list").stdout == ""
    done = rule("add", *GIT, "--workspace", "/repo/x/..", "--expires-in", "8h", "--yes")
    assert done.returncode == 0, done.stderr
    rule_id = done.stdout.strip()
    assert "it would have decided 0" in done.stderr
    head, line = rule("list").stdout.splitlines()
    assert head.split() == ["id", "says", "tool", "input", "holds", "in", "until"]
    assert line.startswith(f"{rule_id}  allow  Bash  command=git status*  workspace /repo")
    (listed,) = json.loads(rule("list", "--json").stdout)
    assert (listed["scope_id"], listed["input"]) == ("/repo", {"command": "git status*"})
    assert listed["expires_at"] - listed["created_at"] == pytest.approx(8 * 3600_000, abs=60_000)
    (exported,) = json.loads(rule("export").stdout)["rules"]
    assert exported == {
        name: listed[name]
        for name in ("effect", "tool", "scope", "scope_id", "input", "expires_at")
    }
    done = rule("revoke", rule_id)
    assert (done.returncode, done.stdout) == (0, f"{rule_id} is revoked\n")
    assert json.loads(rule("list", "--json").stdout) == []
    assert "revoked 2" in rule("list", "--all").stdout


def test_nothing_is_saved_unless_somebody_says_so(rule: Rule):
    done = rule("add", *GIT, "--everywhere")
    assert done.returncode == 1
    assert "--yes" in done.stderr
    assert rule("preview", *GIT, "--everywhere").stdout.startswith("Of all requests so far (0)")
    found = json.loads(rule("preview", *GIT, "--everywhere", "--json").stdout)
    assert found == {"items": [], "matched": 0, "looked_at": 0, "complete": True}
    assert json.loads(rule("list", "--json").stdout) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (GIT, "--everywhere"),
        ((*GIT, "--everywhere", "--session", "x"), "--everywhere"),
        ((*GIT, "--everywhere", "--any-input"), "--any-input"),
        (("allow", "Bash", "--everywhere"), "--any-input"),
        (("allow", "Bash", "--input", "x", "--everywhere"), "MEMBER=PATTERN"),
        ((*GIT, *GIT[2:], "--everywhere"), "each member once"),
        ((*GIT, "--everywhere", "--expires-in", "soon"), "8h"),
        (("allow", "*", "--any-input", "--everywhere"), "bypassPermissions"),
        ((*GIT, "--session", "nothing-like-it"), "there is no session"),
    ],
)
def test_what_is_not_said_is_asked_for(rule: Rule, arguments: tuple[str, ...], words: str):
    done = rule("add", *arguments, "--yes")
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
