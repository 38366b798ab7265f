"""Removing a worktree: whatever is in it, nothing is lost without a word."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from agor.daemon.git.command import Git
from agor.environments.identity import UnixIdentity
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
from tests.contract.waiting import PATIENCE


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "shop")


async def test_a_clean_worktree_goes_with_its_empty_branch(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    removed = await ask(served, "DELETE", f"/worktrees/{worktree_id}", 200)
    assert not path.exists()
    assert (removed["branch_kept"], removed["saved_ref"]) == (None, None)
    assert git(shop, "branch", "--list") == "* main"
    await ask(served, "GET", f"/worktrees/{worktree_id}", 404)
    await ask(served, "DELETE", f"/worktrees/{worktree_id}", 404)


async def test_uncommitted_work_is_in_the_way_and_named(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    (path / "file").write_text("changed\n")
    (path / "new").write_text("new\n")
    problem = await ask(served, "DELETE", f"/worktrees/{worktree_id}", 409)
    assert "1 changed and 1 new files (file, new)" in problem["detail"]
    assert (path / "new").read_text() == "new\n"
    assert (await state_of(served, worktree_id))["folder"] == "there", "it goes on as it was"


async def test_what_is_discarded_is_saved_first_all_of_it(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    odd = os.fsdecode(b"odd \xff\n")
    (path / "file").write_text("staged\n")
    git(path, "add", "file")
    (path / "file").write_text("changed after\n")
    (path / "dir").mkdir()
    (path / "dir" / odd).write_text("new\n")
    (path / "script").write_text("#!/bin/sh\n")
    (path / "script").chmod(0o755)
    removed = await ask(served, "DELETE", f"/worktrees/{worktree_id}?discard=true", 200)
    assert not path.exists()
    ref = removed["saved_ref"]
    assert git(shop, "rev-parse", ref) == removed["saved_commit"]
    assert git(shop, "show", f"{ref}:file") == "changed after"
    assert git(shop, "show", f"{ref}^2:file") == "staged"
    tree = git(shop, "ls-tree", "-r", "-z", ref)
    assert "dir/odd \\xff\n" in tree
    assert "100755" in tree
    git(shop, "gc", "-q", "--prune=now")
    assert git(shop, "show", f"{ref}:file") == "changed after", "and stays"


@pytest.mark.parametrize("how", ["--assume-unchanged", "--skip-worktree"])
async def test_changes_that_git_was_told_not_to_look_at_are_not_lost(
    served: Served, shop: Path, how: str
):
    worktree_id, path = await worktree(served, await registered(served, shop))
    git(path, "update-index", how, "file")
    await ask(served, "GET", f"/worktrees/{worktree_id}/diff", 200)
    (path / "file").write_text("hidden\n")
    assert git(path, "status", "--porcelain") == "", "git says nothing of it"
    diff = await ask(served, "GET", f"/worktrees/{worktree_id}/diff", 200)
    assert "+hidden" in diff["patch"]
    problem = await ask(served, "DELETE", f"/worktrees/{worktree_id}", 409)
    assert "1 changed files that git was told not to look at (file)" in problem["detail"]
    assert git(path, "status", "--porcelain") == "", "and still says nothing"
    removed = await ask(served, "DELETE", f"/worktrees/{worktree_id}?discard=true", 200)
    assert git(shop, "show", f"{removed['saved_ref']}:file") == "hidden"


async def test_what_is_saved_outlives_a_power_failure(shop: Path):
    """It cannot be tried out here: but git is told to have it on the disk before it says so."""
    ours = Git(UnixIdentity.current(), str(shop))
    assert await ours.text("config", "--get", "core.fsync") == "committed"


async def test_what_was_saved_before_is_not_overwritten(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    # As a removal leaves it that saved, began to delete, and was killed.
    whole = add_commit(shop, "whole", "x\n")
    git(shop, "reset", "-q", "--hard", "HEAD~1")
    git(shop, "update-ref", f"refs/agor/discarded/{worktree_id}", whole)
    (path / "file").unlink()
    removed = await ask(served, "DELETE", f"/worktrees/{worktree_id}?discard=true", 200)
    assert git(shop, "rev-parse", f"refs/agor/discarded/{worktree_id}") == whole
    assert git(shop, "rev-parse", removed["saved_ref"]) == removed["saved_commit"] != whole


async def test_a_branch_without_commits_of_its_own_stays_if_it_is_the_last_one(
    served: Served, shop: Path
):
    git(shop, "switch", "-q", "-c", "feature")
    commit = add_commit(shop, "done", "x\n")
    worktree_id, _ = await worktree(served, await registered(served, shop))
    git(shop, "switch", "-q", "main")
    git(shop, "branch", "-q", "-D", "feature")
    removed = await ask(served, "DELETE", f"/worktrees/{worktree_id}", 200)
    assert "not pushed" in removed["branch_kept"]
    assert git(shop, "rev-parse", "agor/w") == commit


async def test_commits_that_are_nowhere_else_keep_their_branch(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    commit = add_commit(path, "done", "x\n")
    removed = await ask(served, "DELETE", f"/worktrees/{worktree_id}?discard=true", 200)
    assert "not pushed" in removed["branch_kept"]
    assert git(shop, "rev-parse", "agor/w") == commit


@pytest.mark.parametrize("way", ["merged", "pushed"])
async def test_a_branch_whose_commits_are_elsewhere_goes(
    served: Served, shop: Path, tmp_path: Path, way: str
):
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    git(shop, "remote", "add", "origin", str(tmp_path / "remote.git"))
    worktree_id, path = await worktree(served, await registered(served, shop))
    commit = add_commit(path, "done", "x\n")
    if way == "merged":
        git(shop, "merge", "-q", "agor/w")
    else:
        git(path, "push", "-q", "origin", "agor/w")
    removed = await ask(served, "DELETE", f"/worktrees/{worktree_id}", 200)
    assert removed["branch_kept"] is None
    assert "agor/w" not in git(shop, "branch", "--list").split()
    assert git(shop, "cat-file", "-t", commit) == "commit"


async def test_commits_on_no_branch_are_in_the_way_or_saved(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    git(path, "checkout", "-q", "--detach")
    commit = add_commit(path, "done", "x\n")
    problem = await ask(served, "DELETE", f"/worktrees/{worktree_id}", 409)
    assert commit in problem["detail"]
    removed = await ask(served, "DELETE", f"/worktrees/{worktree_id}?discard=true", 200)
    assert git(shop, "merge-base", removed["saved_ref"], commit) == commit


async def test_a_conflict_in_the_middle_of_a_merge_is_saved_with_its_marks(
    served: Served, shop: Path
):
    worktree_id, path = await worktree(served, await registered(served, shop))
    add_commit(shop, "file", "theirs\n")
    add_commit(path, "file", "ours\n")
    git(path, "merge", "main", code=1)
    assert "UU" in [each["code"] for each in (await state_of(served, worktree_id))["files"]]
    await ask(served, "DELETE", f"/worktrees/{worktree_id}", 409)
    removed = await ask(served, "DELETE", f"/worktrees/{worktree_id}?discard=true", 200)
    assert "<<<<<<<" in git(shop, "show", f"{removed['saved_ref']}:file")


async def test_a_locked_worktree_stays_and_says_who_can_help(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    git(shop, "worktree", "lock", "--reason", "on a stick", str(path))
    for query in ("", "?discard=true"):
        problem = await ask(served, "DELETE", f"/worktrees/{worktree_id}{query}", 409)
        assert "on a stick" in problem["detail"]
        assert f"git worktree unlock {path}" in problem["hint"]
    assert path.exists()


async def test_a_worktree_whose_folder_is_gone_is_forgotten_and_its_commits_stay(
    served: Served, shop: Path
):
    worktree_id, path = await worktree(served, await registered(served, shop))
    git(path, "checkout", "-q", "--detach")
    commit = add_commit(path, "done", "x\n")
    path.rename(path.with_name("away"))
    removed = await ask(served, "DELETE", f"/worktrees/{worktree_id}", 200)
    assert removed["saved_commit"] == commit
    assert git(shop, "rev-parse", removed["saved_ref"]) == commit
    assert len(git(shop, "worktree", "list").splitlines()) == 1


async def test_a_repository_inside_of_it_is_never_thrown_away(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    new_repository(path / "inner")
    await ask(served, "DELETE", f"/worktrees/{worktree_id}", 409)
    problem = await ask(served, "DELETE", f"/worktrees/{worktree_id}?discard=true", 409)
    assert "inner" in problem["detail"]
    assert (path / "inner" / "file").exists()
    assert (await ask(served, "GET", f"/worktrees/{worktree_id}", 200))["status"] == "ready"


async def test_work_in_a_submodule_is_never_thrown_away(served: Served, shop: Path, tmp_path: Path):
    module = new_repository(tmp_path / "module")
    allow = ("-c", "protocol.file.allow=always")
    git(shop, *allow, "submodule", "add", "-q", str(module), "sub")
    git(shop, "commit", "-q", "-m", "with a module")
    worktree_id, path = await worktree(served, await registered(served, shop))
    git(path, *allow, "submodule", "update", "-q", "--init")
    add_commit(path / "sub", "work", "x\n")
    git(path, "commit", "-q", "-a", "-m", "use it")
    for query in ("", "?discard=true"):
        problem = await ask(served, "DELETE", f"/worktrees/{worktree_id}{query}", 409)
        assert "sub (1 commits that were not pushed)" in problem["detail"]
    git(path / "sub", "push", "-q", "origin", "HEAD:refs/heads/elsewhere")
    removed = await ask(served, "DELETE", f"/worktrees/{worktree_id}", 200)
    assert "not pushed" in removed["branch_kept"]
    assert not path.exists()


async def test_a_repository_that_was_committed_by_accident_is_never_thrown_away(
    served: Served, shop: Path
):
    worktree_id, path = await worktree(served, await registered(served, shop))
    new_repository(path / "inner")
    # A repository with submodules is removed by force, since git refuses it as such.
    (path / ".gitmodules").touch()
    git(path, "add", "--all")
    git(path, "commit", "-q", "-m", "inner is only a name of a commit now")
    problem = await ask(served, "DELETE", f"/worktrees/{worktree_id}", 409)
    assert "inner (1 commits that were not pushed)" in problem["detail"]
    (path / "new").write_text("x")
    await ask(served, "DELETE", f"/worktrees/{worktree_id}?discard=true", 409)
    assert (path / "inner" / "file").exists()


async def test_a_repository_in_the_place_of_a_file_is_never_thrown_away(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    (path / "file").unlink()
    new_repository(path / "file")
    problem = await ask(served, "DELETE", f"/worktrees/{worktree_id}?discard=true", 409)
    assert "file" in problem["detail"]
    assert (path / "file" / "file").exists()


@pytest.mark.parametrize("where", ["stashed", "of another branch", "gone"])
async def test_work_that_a_submodule_does_not_show_is_never_thrown_away(
    served: Served, shop: Path, tmp_path: Path, where: str
):
    module = new_repository(tmp_path / "module")
    allow = ("-c", "protocol.file.allow=always")
    worktree_id, path = await worktree(served, await registered(served, shop))
    git(path, *allow, "submodule", "add", "-q", str(module), "sub")
    git(path, "commit", "-q", "-m", "with a module")
    if where == "stashed":
        (path / "sub" / "file").write_text("stashed\n")
        git(path / "sub", "stash")
    elif where == "gone":
        add_commit(path / "sub", "work", "x\n")
        path.rename(tmp_path / "away")
    else:
        add_commit(path / "sub", "work", "x\n")
        git(path, "submodule", "--quiet", "deinit", "-f", "sub")
        git(path, "reset", "-q", "--hard", "main")
    for query in ("", "?discard=true"):
        problem = await ask(served, "DELETE", f"/worktrees/{worktree_id}{query}", 409)
        assert "sub (" in problem["detail"]
        assert "not pushed" in problem["detail"]


async def test_a_worktree_that_is_gone_is_forgotten_with_submodules_that_were_pushed(
    served: Served, shop: Path, tmp_path: Path
):
    module = new_repository(tmp_path / "module")
    worktree_id, path = await worktree(served, await registered(served, shop))
    git(path, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(module), "sub")
    git(path, "commit", "-q", "-m", "with a module")
    path.rename(tmp_path / "away")
    await ask(served, "DELETE", f"/worktrees/{worktree_id}", 200)
    assert len(git(shop, "worktree", "list").splitlines()) == 1


async def test_nobody_is_at_work_there_when_it_goes(served: Served, shop: Path):
    repo_id = await registered(served, shop)
    new = {"agentic_tool": "scripted", "repo_id": repo_id}
    session = await ask(served, "POST", "/sessions", 201, **new)
    path = f"/worktrees/{session['worktree_id']}"
    for _ in range(8):
        # A removal that comes while the prompt is on its way to an executor as well.
        task_id = await served.prompt(session["session_id"], json.dumps([{"delay_ms": 60_000}]))
        problem = await ask(served, "DELETE", f"{path}?discard=true", 409)
        assert session["session_id"] in problem["detail"]
        await served.ask.post(f"/tasks/{task_id}/stop")
        assert (await served.finished(task_id))["status"] == "stopped"
    await ask(served, "DELETE", path, 200)
    failed = await served.finished(await served.prompt(session["session_id"], "hello"))
    assert failed["error"]["code"] == "workspace_unreachable"
    problem = await ask(served, "GET", f"/sessions/{session['session_id']}/diff", 409)
    assert "removed" in problem["detail"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
async def test_a_full_disk_is_told_and_loses_nothing(served: Served, tmp_path: Path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("nothing may be mounted here")
    try:
        shop = new_repository(small / "shop")
        worktree_id, path = await worktree(served, await registered(served, shop))
        (path / "work").write_bytes(os.urandom(200_000))
        fill(small / "filler")
        problem = await ask(served, "DELETE", f"/worktrees/{worktree_id}?discard=true", 503)
        assert problem["code"] == "git_failed"
        assert "No space left" in problem["detail"]
        assert (path / "work").stat().st_size == 200_000
        made = await served.ask.post(f"/repos/{await repo_of(served)}/worktrees", json={})
        assert "room" in made.json()["hint"], made.text
        assert len((await ask(served, "GET", "/worktrees", 200))["items"]) == 1
        (small / "filler").unlink()
        await ask(served, "DELETE", f"/worktrees/{worktree_id}?discard=true", 200)
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        made = await served.ask.post(f"/repos/{await repo_of(served)}/worktrees", json={})
        assert made.json()["code"] == "git_failed"
        assert "may it be written to" in made.json()["hint"], made.text
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


def fill(path: Path) -> None:
    """Write until there is no room left."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


async def repo_of(served: Served) -> str:
    repo_id: str = (await ask(served, "GET", "/repos", 200))["items"][0]["repo_id"]
    return repo_id


async def test_what_was_asked_is_carried_through_if_the_client_goes_away(
    served: Served, shop: Path
):
    worktree_id, path = await worktree(served, await registered(served, shop))
    (path / "new").write_text("x")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await served.ask.delete(f"/worktrees/{worktree_id}?discard=true")
    async with asyncio.timeout(PATIENCE):
        while (answer := await served.ask.get(f"/worktrees/{worktree_id}")).status_code != 404:
            if answer.json()["status"] == "ready" and path.exists():
                await served.ask.delete(f"/worktrees/{worktree_id}?discard=true")
    assert git(shop, "show", f"refs/agor/discarded/{worktree_id}:new") == "x"
