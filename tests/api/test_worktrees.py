"""Worktrees: a branch and a folder of its own for each session, and what was done there."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from tests.api.repositories import (
    add_commit,
    ask,
    git,
    new_repository,
    registered,
    state_of,
    worktree,
)
from tests.api.serving import Served


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "shop")


async def test_a_session_of_a_repository_gets_a_worktree_of_its_own(served: Served, shop: Path):
    repo_id = await registered(served, shop)
    new = {"agentic_tool": "scripted", "repo_id": repo_id}
    session = await ask(served, "POST", "/sessions", 201, **new)
    other = await ask(served, "POST", "/sessions", 201, **new)
    folder = Path(session["workspace"])
    assert folder != Path(other["workspace"])
    assert folder.parent == served.daemon._home.folder / "worktrees" / "shop"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    task = await served.prompt(session["session_id"], json.dumps([{"run": ["touch", "made"]}]))
    assert (await served.finished(task))["status"] == "completed"
    assert (folder / "made").exists()
    assert not (shop / "made").exists()
    details = await ask(served, "GET", f"/worktrees/{session['worktree_id']}", 200)
    assert details["session_ids"] == [session["session_id"]]
    again = await ask(
        served, "POST", "/sessions", 201, agentic_tool="scripted",
        worktree_id=session["worktree_id"],
    )  # fmt: skip
    assert again["workspace"] == session["workspace"]


@pytest.mark.parametrize(
    "ways", [{}, {"workspace": "/", "repo_id": "x"}, {"worktree_id": "x", "repo_id": "y"}]
)
async def test_a_session_has_exactly_one_place_to_work_in(served: Served, ways: dict[str, str]):
    problem = await ask(served, "POST", "/sessions", 422, agentic_tool="scripted", **ways)
    assert "exactly one of workspace, worktree_id, repo_id" in problem["detail"]


async def test_a_session_of_what_is_not_there_is_not_found(served: Served):
    for way in ("repo_id", "worktree_id"):
        await ask(served, "POST", "/sessions", 404, agentic_tool="scripted", **{way: "nope"})


async def test_a_worktree_begins_where_it_is_told_to(served: Served, shop: Path):
    repo_id = await registered(served, shop)
    first = git(shop, "rev-parse", "HEAD")
    second = add_commit(shop, "more", "two\n")
    made = await ask(served, "POST", f"/repos/{repo_id}/worktrees", 201)
    assert (made["base"], made["base_commit"]) == ("main", second)
    assert made["branch"] == f"agor/{made['name']}"
    made = await ask(
        served, "POST", f"/repos/{repo_id}/worktrees", 201, name="old", branch="fix/it", base=first
    )
    assert git(Path(made["path"]), "rev-parse", "HEAD") == first
    assert git(Path(made["path"]), "branch", "--show-current") == "fix/it"
    listed = await ask(served, "GET", f"/repos/{repo_id}/worktrees", 200)
    assert listed["items"][0]["name"] == "old"


@pytest.mark.parametrize(
    ("new", "field"),
    [
        ({"name": "../../up"}, "name"), ({"name": "-x"}, "name"), ({"name": ".git"}, "name"),
        ({"name": "a\u0001b"}, "name"), ({"name": "x" * 200}, "name"),
        ({"branch": "../x"}, "branch"), ({"branch": "--force"}, "branch"),
        ({"branch": "a@{1}"}, "branch"), ({"branch": "x.lock"}, "branch"),
        ({"base": "--all"}, "base"), ({"base": "no-such-commit"}, "base"),
    ],
)  # fmt: skip
async def test_a_name_a_branch_or_a_base_that_tries_to_escape_makes_nothing(
    served: Served, shop: Path, new: dict[str, str], field: str
):
    repo_id = await registered(served, shop)
    problem = await ask(served, "POST", f"/repos/{repo_id}/worktrees", 422, **new)
    assert problem["detail"].startswith(f"{field}: ")
    assert git(shop, "branch", "--list") == "* main"
    assert (await ask(served, "GET", "/worktrees", 200))["items"] == []


async def test_a_branch_that_exists_or_is_checked_out_is_left_alone(served: Served, shop: Path):
    repo_id = await registered(served, shop)
    path = f"/repos/{repo_id}/worktrees"
    problem = await ask(served, "POST", path, 409, branch="main")
    assert f"checked out at '{shop}'" in problem["detail"]
    git(shop, "branch", "spare")
    assert "already" in (await ask(served, "POST", path, 409, branch="spare"))["detail"]
    problem = await ask(served, "POST", path, 409, branch="spare/below")
    assert "can then have none below it" in problem["detail"]
    assert (await ask(served, "GET", "/worktrees", 200))["items"] == []


async def test_a_folder_that_is_somebodys_is_not_touched(served: Served, shop: Path):
    repo_id = await registered(served, shop)
    place = served.daemon._home.folder / "worktrees" / "shop" / "mine"
    place.mkdir(parents=True)
    (place / "precious").write_text("x")
    problem = await ask(served, "POST", f"/repos/{repo_id}/worktrees", 409, name="mine")
    assert str(place) in problem["detail"]
    assert (place / "precious").read_text() == "x"
    assert git(shop, "branch", "--list") == "* main"
    assert (await ask(served, "GET", "/worktrees", 200))["items"] == []


async def test_a_repository_without_a_commit_says_how_to_make_one(served: Served, tmp_path: Path):
    repo_id = await registered(served, new_repository(tmp_path / "empty", commit=False))
    problem = await ask(served, "POST", f"/repos/{repo_id}/worktrees", 409)
    assert "no commit yet" in problem["detail"]
    assert "git commit --allow-empty" in problem["hint"]


async def test_many_at_once_on_one_repository_all_succeed(served: Served, shop: Path):
    repo_id = await registered(served, shop)
    new = {"agentic_tool": "scripted", "repo_id": repo_id}
    made = await asyncio.gather(*(ask(served, "POST", "/sessions", 201, **new) for _ in range(6)))
    assert len({session["workspace"] for session in made}) == 6
    assert len(git(shop, "worktree", "list").splitlines()) == 7
    gone = (ask(served, "DELETE", f"/worktrees/{each['worktree_id']}", 200) for each in made)
    await asyncio.gather(*gone)
    assert len(git(shop, "worktree", "list").splitlines()) == 1
    assert git(shop, "branch", "--list") == "* main"


async def test_the_same_name_at_once_makes_one(served: Served, shop: Path):
    repo_id = await registered(served, shop)
    path = f"/repos/{repo_id}/worktrees"
    answers = await asyncio.gather(*(served.ask.post(path, json={"name": "one"}) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]


async def test_a_repeated_request_makes_one_worktree(served: Served, shop: Path):
    repo_id = await registered(served, shop)
    headers = {"idempotency-key": "k"}
    path = f"/repos/{repo_id}/worktrees"
    first = await served.ask.post(path, json={}, headers=headers)
    second = await served.ask.post(path, json={}, headers=headers)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert len((await ask(served, "GET", "/worktrees", 200))["items"]) == 1


# ── how it stands ────────────────────────────────────────────────────────────────────────────


async def test_its_state_counts_changes_commits_and_bytes(served: Served, tmp_path: Path):
    source = new_repository(tmp_path / "source")
    git(tmp_path, "clone", "-q", str(source), "shop")
    shop = tmp_path / "shop"
    worktree_id, path = await worktree(served, await registered(served, shop))
    state = await state_of(served, worktree_id)
    quiet = {"folder": "there", "changed": 0, "untracked": 0, "ahead": 0, "behind": 0}
    assert {**quiet, "unpushed": 0} == {name: state[name] for name in (*quiet, "unpushed")}
    add_commit(path, "done", "x\n")
    add_commit(shop, "meanwhile", "x\n")
    (path / "file").write_text("changed\n")
    (path / os.fsdecode(b"odd \xff\n")).write_bytes(b"0" * 100_000)
    (path / ".gitignore").write_text("junk\n")
    (path / "junk").write_text("x")
    state = await state_of(served, worktree_id)
    assert (state["ahead"], state["behind"], state["unpushed"]) == (1, 1, 1)
    assert (state["changed"], state["untracked"], state["ignored"]) == (1, 2, 1)
    assert {"path": "odd \\xff\n", "code": "?"} in state["files"]
    assert state["disk_bytes"] > 100_000
    assert not state["counts_cut"]
    assert not state["disk_cut"]
    git(path, "push", "-q", "origin", "HEAD")
    assert (await state_of(served, worktree_id))["unpushed"] == 0


async def test_a_worktree_that_was_removed_by_hand_is_told_as_gone(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    git(shop, "worktree", "remove", str(path))
    assert (await state_of(served, worktree_id))["folder"] == "gone"
    problem = await ask(served, "GET", f"/worktrees/{worktree_id}/diff", 409)
    assert "gone" in problem["detail"]
    session = await served.ask.post(
        "/sessions", json={"agentic_tool": "scripted", "worktree_id": worktree_id}
    )
    assert session.json()["code"] == "workspace_unreachable"


async def test_a_worktree_that_was_locked_or_moved_is_told_as_such(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    git(shop, "worktree", "lock", "--reason", "on a stick", str(path))
    state = await state_of(served, worktree_id)
    assert (state["folder"], state["detail"]) == ("locked", "locked: on a stick")
    git(shop, "worktree", "unlock", str(path))
    elsewhere = path.with_name("elsewhere")
    git(shop, "worktree", "move", str(path), str(elsewhere))
    state = await state_of(served, worktree_id)
    assert (state["folder"], state["detail"]) == ("moved", f"it is at {elsewhere}")


async def test_a_repository_that_is_gone_is_told_and_no_bug(served: Served, shop: Path):
    worktree_id, _ = await worktree(served, await registered(served, shop))
    shop.rename(shop.with_name("away"))
    state = await state_of(served, worktree_id)
    assert state["folder"] == "unreadable"
    assert str(shop) in state["detail"]


# ── the difference ───────────────────────────────────────────────────────────────────────────


async def test_a_difference_has_committed_uncommitted_and_new_files(served: Served, shop: Path):
    repo_id = await registered(served, shop)
    new = {"agentic_tool": "scripted", "repo_id": repo_id}
    session = await ask(served, "POST", "/sessions", 201, **new)
    path = Path(session["workspace"])
    add_commit(path, "committed", "a\n")
    (path / "file").write_text("changed\n")
    (path / "new file").write_text("n\n")
    (path / "image").write_bytes(bytes(range(256)))
    (path / "link").symlink_to("/etc/passwd")
    before = git(path, "status", "--porcelain=v2")
    found = await ask(served, "GET", f"/sessions/{session['session_id']}/diff", 200)
    files = {each["path"]: each for each in found["files"]}
    assert set(files) == {"committed", "file", "new file", "image", "link"}
    assert files["image"]["binary"]
    assert (files["file"]["additions"], files["file"]["deletions"]) == (1, 1)
    assert "+changed\n" in found["patch"]
    assert "+n\n" in found["patch"]
    assert "Binary files" in found["patch"]
    assert "root:" not in found["patch"], "a link is shown as a link"
    assert not found["patch_cut"]
    assert git(path, "status", "--porcelain=v2") == before, "looking changes nothing"
    git_dir = Path(git(path, "rev-parse", "--absolute-git-dir"))
    assert not list(git_dir.glob("agor-*"))


async def test_what_cannot_be_in_a_difference_does_not_hide_the_rest(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    new_repository(path / "inner", commit=False)
    (path / "new").write_text("new\n")
    diff = await ask(served, "GET", f"/worktrees/{worktree_id}/diff", 200)
    assert [each["path"] for each in diff["files"]] == ["new"]


async def test_a_long_difference_is_cut_at_a_line_and_says_so(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    (path / "long").write_text("0123456789\n" * 100_000)
    found = await ask(served, "GET", f"/worktrees/{worktree_id}/diff?max_bytes=5000", 200)
    assert found["patch_cut"]
    assert 4000 < len(found["patch"]) <= 5000
    assert found["patch"].endswith("\n")
    assert found["files"][0]["additions"] == 100_000


async def test_a_session_in_a_plain_folder_has_no_difference(served: Served):
    session_id = await served.new_session()
    problem = await ask(served, "GET", f"/sessions/{session_id}/diff", 409)
    assert "repo_id" in problem["hint"]


async def test_neither_hooks_nor_external_programs_run_for_a_look(
    served: Served, shop: Path, tmp_path: Path
):
    trap = tmp_path / "trap"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 >> {trap}\n")
    program.chmod(0o755)
    for setting in ("core.fsmonitor", "diff.external", "core.pager", "diff.x.textconv"):
        git(shop, "config", setting, str(program))
    hooks = shop / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        (hooks / hook).symlink_to(program)
    add_commit(shop, ".gitattributes", "* diff=x\n")
    trap.unlink(missing_ok=True)
    worktree_id, path = await worktree(served, await registered(served, shop))
    (path / "file").write_text("changed\n")
    await state_of(served, worktree_id)
    await ask(served, "GET", f"/worktrees/{worktree_id}/diff", 200)
    await ask(served, "DELETE", f"/worktrees/{worktree_id}?discard=true", 200)
    assert not trap.exists(), trap.read_text()
