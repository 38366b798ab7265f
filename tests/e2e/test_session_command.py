"""`agor session` and `agor permission` as people and scripts meet them."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from tests.e2e.people_commands import Agor
from tests.e2e.runs import ask, asked, asks, begin, feed, sessions, tasks, words


@pytest.fixture
def session_id(agor: Agor, tmp_path: Path) -> str:
    """A session whose agent said hello."""
    session_id = begin(agor, tmp_path, "hello you")
    with contextlib.closing(feed(agor, session_id)) as events:
        next(event for event in events if event["type"] == "task" and event["data"]["ended_at"])
    return session_id


def asking(agor: Agor, folder: Path, command: str = "ls") -> str:
    """Begin a session whose agent asks for a command; gives the request's id."""
    session_id = begin(agor, folder, json.dumps([asks(command)]))
    # A task that asks is told of before its question is: the feed has them in this order.
    with contextlib.closing(feed(agor, session_id)) as events:
        next(event for event in events if event["type"] == "permission")
    return asked(agor, folder)


def test_a_session_is_listed_shown_and_gone_on_with(agor: Agor, tmp_path: Path, session_id: str):
    head, *lines = agor.done("session", "list").splitlines()
    assert head.split() == ["id", "status", "agent", "since", "folder", "title"]
    (line,) = [each for each in lines if str(tmp_path) in each]
    assert session_id.startswith(line.split()[0])
    assert line.endswith("hello you")
    done = agor("session", "prompt", "and again", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("and again\n"), "and not what was said before"
    shown = agor.done("session", "show", session_id[:23], "--conversation")
    assert f"session    {session_id}\n" in shown
    said = shown.partition("\n\n")[2]
    assert [line for line in said.splitlines() if line] == [
        "> hello you", "hello you", "> and again", "and again",
    ]  # fmt: skip
    attached = agor.done("session", "attach", cwd=tmp_path)
    assert "✓ completed" in attached
    events = agor.done("session", "attach", session_id, "--json").splitlines()
    assert json.loads(events[0])["sequence"] == 1


def test_a_prompt_that_waits_behind_another_is_stopped_with_it(agor: Agor, tmp_path: Path):
    asking(agor, tmp_path)
    agor.done("session", "prompt", "--detach", "next", cwd=tmp_path)
    stopped = agor.done("session", "stop", "--reason", "enough", cwd=tmp_path).splitlines()
    assert [line.partition(" is ")[2] for line in stopped] == ["stopped", "stopped"]
    assert [task["status"] for task in tasks(agor, tmp_path)] == ["stopped", "stopped"]
    assert agor.done("session", "stop", cwd=tmp_path) == ""


def test_a_session_is_deleted_only_if_somebody_is_sure(agor: Agor, tmp_path: Path, session_id: str):
    assert "--yes" in agor.refused("session", "delete", session_id)
    assert agor.done("session", "delete", session_id, "--yes") == f"{session_id} is deleted\n"
    assert sessions(agor, tmp_path) == []


def test_which_session_is_meant_is_said_or_asked_for(agor: Agor, tmp_path: Path, session_id: str):
    assert "agor session list" in agor.refused("session", "show", "ffffffff")
    begin(agor, tmp_path, "x")
    # The first characters of an id are the year.
    assert "sessions begin with" in agor.refused("session", "show", session_id[:4])
    elsewhere = agor("session", "show", cwd=Path("/"))
    assert elsewhere.returncode == 1
    assert "there was no session in / yet" in elsewhere.stderr


def test_a_session_is_shared_and_no_more(agor: Agor, tmp_path: Path, session_id: str):
    bea = f"bea-{session_id[-4:]}"
    ask(agor, "/users", {"name": bea})
    told = agor.done("session", "share", session_id, bea, "--prompt")
    assert told == f"{bea} may look at it and prompt: {session_id}\n"
    assert f"shared     {bea} (prompt)\n" in agor.done("session", "show", session_id)
    assert agor.done("session", "unshare", session_id, bea) == f"{bea} cannot see it any more\n"
    assert ask(agor, f"/sessions/{session_id}/shares")["items"] == []
    assert "agor user list" in agor.refused("session", "share", session_id, "nobody-like-it")


# ── permissions ──────────────────────────────────────────────────────────────────────────────


def test_a_request_is_seen_in_full_and_allowed(agor: Agor, tmp_path: Path):
    permission_id = asking(agor, tmp_path, "ls\nrm -rf ~")
    (line,) = [
        each for each in agor.done("permission", "list").splitlines() if permission_id in each
    ]
    assert line.endswith("Bash  ls…")
    assert "  command: ls\n    rm -rf ~\n" in agor.done("permission", "show", permission_id)
    assert agor.done("permission", "allow", permission_id) == "Bash is allowed\n"
    assert "✓ completed" in agor.done("session", "attach", cwd=tmp_path)
    assert "decided before" in agor.refused("permission", "deny", permission_id)


def test_a_denial_tells_why(agor: Agor, tmp_path: Path):
    permission_id = asking(agor, tmp_path)
    assert agor.done("permission", "deny", permission_id, "--reason", "no!") == "Bash is denied\n"
    assert "⊘ denied: no!" in agor.done("session", "attach", cwd=tmp_path)
    assert permission_id in agor.done("permission", "list", "--all")


def test_an_answer_for_more_than_once_is_shown_before_it_is_saved(agor: Agor, tmp_path: Path):
    permission_id = asking(agor, tmp_path)
    unsure = agor("permission", "allow", permission_id, "--scope", "workspace")
    assert unsure.returncode == 1
    assert "it would have decided 1." in unsure.stderr
    assert "--yes" in unsure.stderr
    agor.done("permission", "allow", permission_id, "--scope", "workspace", "--yes")
    assert agor(*words(asks("ls")), cwd=tmp_path).returncode == 0
    agor.done("permission", "allow", asking(agor, tmp_path, "pwd"), "--scope", "session")
    again = json.dumps([asks("pwd")])
    assert agor("session", "prompt", again, cwd=tmp_path).returncode == 0
