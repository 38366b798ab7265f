"""Workspaces of real Unix users: made as them, reached by them, closed to the others."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.impersonation.people_site import (
    PeopleSite,
    as_user,
    people_site,
    repository_of,
)
from tests.integration.unix_users import processes_of


@pytest.fixture
def daemon(site) -> Iterator[PeopleSite]:
    with people_site(site) as running:
        yield running


@pytest.fixture
def folder(request, anna, ben) -> Iterator[str]:
    """A name for this test's folders in both homes; they are gone afterwards."""
    name = f"of-{abs(hash(request.node.name))}"
    yield name
    for user in (anna, ben):
        as_user(user, "rm", "-rf", name, ".agor")
        user.home.chmod(0o700)


def owners(path: Path) -> set[int]:
    """The users that anything at or below a path belongs to."""
    return {path.lstat().st_uid, *(each.lstat().st_uid for each in path.rglob("*"))}


def test_a_worktree_is_made_and_removed_as_the_sessions_unix_user(daemon, anna, folder):
    home = repository_of(anna, anna.home / folder)
    repo = daemon.made("anna", "/repos", path=str(home))
    session = daemon.made("anna", "/sessions", agentic_tool="scripted", repo_id=repo["repo_id"])
    worktree = Path(session["workspace"])
    assert worktree.parent == anna.home / ".agor" / "worktrees" / folder
    assert owners(worktree) == owners(home) == {anna.uid}
    for closed in (worktree, worktree.parent, worktree.parent.parent):
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    told, _ = daemon.run("anna", session["session_id"], "sh", "-c", "id -un > who; git add who")
    assert told["status"] == "completed"
    assert (worktree / "who").read_text() == f"{anna.name}\n"
    difference = daemon.ask("anna", "GET", f"/sessions/{session['session_id']}/diff").json()
    assert [file["path"] for file in difference["files"]] == ["who"]
    path = f"/worktrees/{session['worktree_id']}"
    assert daemon.ask("anna", "DELETE", path).status_code == 409
    removed = daemon.ask("anna", "DELETE", f"{path}?discard=true").json()
    assert not worktree.exists()
    assert owners(home) == {anna.uid}, "what was saved is hers too"
    assert as_user(anna, "git", "show", f"{removed['saved_ref']}:who", cwd=home) == (
        f"{anna.name}\n"
    )


def test_neither_reads_the_others_worktree_from_inside_an_executor(daemon, anna, ben, folder):
    at = {}
    for name, user in (("anna", anna), ("ben", ben)):
        repo = daemon.made(name, "/repos", path=str(repository_of(user, user.home / folder)))
        at[name] = daemon.made(name, "/sessions", agentic_tool="scripted", repo_id=repo["repo_id"])
        daemon.run(name, at[name]["session_id"], "sh", "-c", f"echo secret-of-{name} > notes")
    for name, other in (("anna", "ben"), ("ben", "anna")):
        own, foreign = at[name]["session_id"], at[other]["workspace"]
        script = f"cat {foreign}/notes; ls {foreign}; cd {foreign}; echo x > {foreign}/notes; true"
        told, said = daemon.run(name, own, "sh", "-c", script)
        assert told["status"] == "completed"
        assert f"secret-of-{other}" not in said
        assert said.count("denied") == 4 or said.count("can't cd") == 1, said
        assert f"secret-of-{name}" in daemon.run(name, own, "cat", "notes")[1], "their own they do"
        assert Path(foreign, "notes").read_text() == f"secret-of-{other}\n"


def test_neither_reaches_the_others_worktree_by_any_route(daemon, anna, ben, folder):
    repo = daemon.made("anna", "/repos", path=str(repository_of(anna, anna.home / folder)))
    session = daemon.made("anna", "/sessions", agentic_tool="scripted", repo_id=repo["repo_id"])
    worktree_id, session_id = session["worktree_id"], session["session_id"]
    daemon.run("anna", session_id, "sh", "-c", "echo secret-of-anna > notes")
    paths = [
        ("GET", f"/repos/{repo['repo_id']}"), ("DELETE", f"/repos/{repo['repo_id']}"),
        ("GET", f"/repos/{repo['repo_id']}/worktrees"),
        ("POST", f"/repos/{repo['repo_id']}/worktrees"),
        ("GET", f"/worktrees/{worktree_id}"), ("GET", f"/worktrees/{worktree_id}/diff"),
        ("DELETE", f"/worktrees/{worktree_id}"),
        ("DELETE", f"/worktrees/{worktree_id}?discard=true"),
        ("GET", f"/sessions/{session_id}/diff"), ("GET", f"/sessions/{session_id}"),
    ]  # fmt: skip
    for method, path in paths:
        answer = daemon.ask("ben", method, path)
        assert answer.status_code == 404, (method, path, answer.text)
        assert str(anna.home) not in answer.text
    for way in ({"worktree_id": worktree_id}, {"repo_id": repo["repo_id"]}):
        answer = daemon.ask("ben", "POST", "/sessions", agentic_tool="scripted", **way)
        assert answer.status_code == 404
    for lists in ("/repos", "/worktrees", "/sessions", "/worktree-orphans"):
        assert daemon.ask("ben", "GET", lists).json()["items"] == []
    direct = daemon.ask(
        "ben", "POST", "/sessions", agentic_tool="scripted", workspace=session["workspace"]
    )
    assert direct.json()["code"] == "workspace_unreachable"
    assert daemon.ask("ben", "POST", "/repos", path=session["workspace"]).status_code == 422


def test_a_folder_in_anothers_closed_home_is_refused_with_what_to_change(daemon, anna, ben, folder):
    inside = ben.home / folder
    as_user(ben, "mkdir", str(inside))
    new = {"agentic_tool": "scripted", "workspace": str(inside)}
    answer = daemon.ask("anna", "POST", "/sessions", **new)
    problem = answer.json()
    assert answer.status_code == 422
    assert problem["code"] == "workspace_unreachable"
    assert f"{anna.name} may not enter '{ben.home}', which is on the way" in problem["detail"]
    assert f"setfacl -m u:{anna.name}:x {ben.home}" in problem["hint"]
    command = f"chmod o+x {ben.home}"
    assert command in problem["hint"]
    as_user(ben, *command.split())
    session = daemon.made("anna", "/sessions", **new)
    told, said = daemon.run("anna", session["session_id"], "pwd")
    assert (told["status"], said.strip()[-len(str(inside)) :]) == ("completed", str(inside))


def test_a_folder_that_was_closed_since_fails_the_task_before_an_executor_starts(
    daemon, anna, ben, folder
):
    ben.home.chmod(0o711)
    inside = ben.home / folder
    as_user(ben, "mkdir", str(inside))
    new = {"agentic_tool": "scripted", "workspace": str(inside)}
    session = daemon.made("anna", "/sessions", **new)
    inside.chmod(0o700)
    told, _ = daemon.run("anna", session["session_id"], "true")
    assert told["status"] == "failed"
    assert told["error"]["code"] == "workspace_unreachable"
    assert f"chown -R {anna.name} {inside}" in told["error"]["hint"]
    assert processes_of(anna.uid) == set()


def test_a_repository_of_somebody_else_runs_nothing_as_whoever_registers_it(
    daemon, anna, ben, folder
):
    ben.home.chmod(0o711)
    theirs = repository_of(ben, ben.home / folder)
    trap = f"id -un >> /tmp/trap-{folder}"
    for hook in ("post-checkout", "fsmonitor"):
        path = theirs / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\n{trap}\n")
        path.chmod(0o755)
    as_user(ben, "git", "config", "core.fsmonitor", str(path), cwd=theirs)
    answer = daemon.ask("anna", "POST", "/repos", path=str(theirs))
    assert "dubious ownership" in answer.json()["detail"]
    assert f"git config --global --add safe.directory {theirs}" in answer.json()["hint"]
    repo = daemon.made("ben", "/repos", path=str(theirs))
    worktree = daemon.made("ben", f"/repos/{repo['repo_id']}/worktrees")
    daemon.ask("ben", "GET", f"/worktrees/{worktree['worktree_id']}")
    daemon.ask("ben", "GET", f"/worktrees/{worktree['worktree_id']}/diff")
    daemon.ask("ben", "DELETE", f"/worktrees/{worktree['worktree_id']}")
    assert not Path(f"/tmp/trap-{folder}").exists(), "no hook runs for a look, his own neither"


def test_a_clone_is_made_as_its_person_into_their_own_folder(daemon, anna, folder):
    source = repository_of(anna, anna.home / folder)
    repo = daemon.made("anna", "/repos", url=str(source), name=f"c-{folder}")
    while repo["status"] == "cloning":
        repo = daemon.ask("anna", "GET", f"/repos/{repo['repo_id']}").json()
    assert repo["status"] == "ready", repo
    assert Path(repo["path"]) == anna.home / ".agor" / "repos" / f"c-{folder}"
    assert owners(Path(repo["path"])) == {anna.uid}
    assert stat.S_IMODE(Path(repo["path"]).parent.stat().st_mode) == 0o700


def test_who_has_no_unix_user_is_refused_and_nothing_is_made_as_the_daemon(daemon, anna, folder):
    path = str(repository_of(anna, anna.home / folder))
    for body in ({"path": path}, {"url": path}):
        answer = daemon.ask("owner", "POST", "/repos", **body)
        assert answer.json()["code"] == "impersonation_refused"
    new = {"agentic_tool": "scripted", "workspace": "/tmp"}
    answer = daemon.ask("owner", "POST", "/sessions", **new)
    assert answer.json()["code"] == "impersonation_refused"
    assert not (daemon.home / "worktrees").exists()
    assert not (daemon.home / "repos").exists()


def test_who_has_no_unix_user_works_as_the_one_that_is_set_for_them(site, anna, folder):
    path = str(repository_of(anna, anna.home / folder))
    with people_site(site, **{"execution.executor_unix_user": anna.name}) as daemon:
        repo = daemon.made("owner", "/repos", path=path)
        made = daemon.made("owner", f"/repos/{repo['repo_id']}/worktrees", name="one")
        assert owners(Path(made["path"])) == {anna.uid}
        told = daemon.ask("owner", "GET", f"/worktrees/{made['worktree_id']}").json()
        assert json.dumps(told["state"]["changed"]) == "0"
