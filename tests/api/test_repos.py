"""Repositories: registered where they are, cloned, forgotten."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.store.base import Statement, Write
from tests.api.repositories import add_commit, ask, git, new_repository, registered, worktree
from tests.api.serving import Served, serving
from tests.contract.waiting import PATIENCE


async def cloned(served: Served, **new: object) -> dict[str, Any]:
    """Clone a repository, and wait for it."""
    repo = await ask(served, "POST", "/repos", 202, **new)
    return await settled(served, repo["repo_id"])


async def settled(served: Served, repo_id: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            repo: dict[str, Any] = await ask(served, "GET", f"/repos/{repo_id}", 200)
            if repo["status"] != "cloning":
                return repo
            await asyncio.sleep(0.01)


async def test_any_folder_of_a_repository_registers_its_top_level(served: Served, tmp_path: Path):
    folder = new_repository(tmp_path / "shop")
    (folder / "deep" / "down").mkdir(parents=True)
    repo = await ask(served, "POST", "/repos", 201, path=str(folder / "deep" / "down"))
    assert (repo["path"], repo["name"], repo["status"]) == (str(folder), "shop", "ready")
    assert await ask(served, "GET", f"/repos/{repo['repo_id']}", 200) == repo
    assert (await ask(served, "GET", "/repos", 200))["items"] == [repo]
    again = await ask(served, "POST", "/repos", 409, path=str(folder))
    assert repo["repo_id"] in again["hint"]


async def test_a_second_repository_of_the_same_name_gets_another(served: Served, tmp_path: Path):
    for place, name in (("a", "shop"), ("b", "shop-2"), ("c", "shop-3")):
        folder = new_repository(tmp_path / place / "shop")
        assert (await ask(served, "POST", "/repos", 201, path=str(folder)))["name"] == name
    folder = new_repository(tmp_path / "d")
    await ask(served, "POST", "/repos", 409, path=str(folder), name="shop")


@pytest.mark.parametrize("what", ["missing", "plain", "file", "inside"])
async def test_what_is_no_repository_is_refused_in_words(served: Served, tmp_path: Path, what: str):
    (tmp_path / "plain").mkdir()
    (tmp_path / "file").write_text("")
    inside = new_repository(tmp_path / "inside") / ".git" / "objects"
    path = inside if what == "inside" else tmp_path / what
    problem = await ask(served, "POST", "/repos", 422, path=str(path))
    assert problem["hint"]
    assert (await ask(served, "GET", "/repos", 200))["items"] == []


async def test_a_bare_repository_is_registered_and_has_worktrees(served: Served, tmp_path: Path):
    source = new_repository(tmp_path / "source")
    git(tmp_path, "clone", "-q", "--bare", str(source), "bare.git")
    repo_id = await registered(served, tmp_path / "bare.git")
    _, path = await worktree(served, repo_id)
    assert (path / "file").read_text() == "one\n"


async def test_it_takes_a_path_or_an_address_and_not_both(served: Served, tmp_path: Path):
    await ask(served, "POST", "/repos", 422, name="x")
    await ask(served, "POST", "/repos", 422, path="/x", url="/y")
    await ask(served, "POST", "/repos", 422, path="relative")


async def test_a_repository_with_worktrees_is_not_forgotten(served: Served, tmp_path: Path):
    repo_id = await registered(served, new_repository(tmp_path / "shop"))
    worktree_id, _ = await worktree(served, repo_id, name="login")
    problem = await ask(served, "DELETE", f"/repos/{repo_id}", 409)
    assert "login" in problem["detail"]
    await ask(served, "DELETE", f"/worktrees/{worktree_id}", 200)
    await ask(served, "DELETE", f"/repos/{repo_id}", 204)
    await ask(served, "GET", f"/repos/{repo_id}", 404)
    assert (tmp_path / "shop" / "file").exists(), "the folder stays"


# ── clones ───────────────────────────────────────────────────────────────────────────────────


async def test_a_clone_is_answered_at_once_and_then_ready(served: Served, tmp_path: Path):
    source = new_repository(tmp_path / "source")
    repo = await cloned(served, url=str(source))
    assert repo["status"] == "ready"
    assert repo["url"] == str(source)
    path = Path(repo["path"])
    assert path == served.daemon._home.folder / "repos" / "source"
    assert git(path, "rev-parse", "HEAD") == git(source, "rev-parse", "HEAD")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    _, folder = await worktree(served, repo["repo_id"])
    assert (folder / "file").read_text() == "one\n"


async def test_a_clone_that_fails_says_why_and_leaves_nothing(served: Served, tmp_path: Path):
    (tmp_path / "plain").mkdir()
    repo = await cloned(served, url=str(tmp_path / "plain"))
    assert repo["status"] == "failed"
    assert repo["problem"]["code"] == "git_failed"
    assert list((served.daemon._home.folder / "repos").iterdir()) == []
    problem = await ask(served, "POST", f"/repos/{repo['repo_id']}/worktrees", 409)
    assert "failed" in problem["detail"]
    await ask(served, "DELETE", f"/repos/{repo['repo_id']}", 204)


async def test_a_clone_runs_no_command_that_an_address_names(served: Served, tmp_path: Path):
    trap = tmp_path / "trap"
    for url in (f"ext::sh -c touch% {trap}", f"ext::touch%20{trap}", f"--upload-pack=touch {trap}"):
        await ask(served, "POST", "/repos", 422, url=url)
    assert not trap.exists()


async def test_a_clone_is_called_off_and_leaves_nothing(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # A git of our own, which begins and then waits for ever.
    begun, shims = tmp_path / "begun", tmp_path / "bin"
    shims.mkdir()
    (shims / "git").write_text(f'#!/bin/sh\ncase "$*" in *clone*) ;; *) exec /usr/bin/git "$@" ;; '
                               f"esac\nmkfifo {begun}; cat {begun}\n")  # fmt: skip
    (shims / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}:/usr/bin:/bin")
    source = new_repository(tmp_path / "source")
    repo = await ask(served, "POST", "/repos", 202, url=str(source))
    async with asyncio.timeout(PATIENCE):
        while not begun.exists():
            await asyncio.sleep(0.01)
    found = await ask(served, "GET", "/worktree-orphans", 200)
    assert found["items"] == [], "one that is under way is no orphan"
    await ask(served, "DELETE", f"/repos/{repo['repo_id']}", 204)
    assert list((served.daemon._home.folder / "repos").iterdir()) == []


async def test_a_clone_that_a_crash_cut_off_is_reported_and_cleaned_up(tmp_path: Path):
    source = new_repository(tmp_path / "source")
    async with serving(tmp_path) as served:
        half = await cloned(served, url=str(source))
        whole = await cloned(served, url=str(source), name="whole")
        # As a crash in the middle of the one, and just before the end of the other, leaves it.
        cut = Write([Statement("UPDATE repos SET status = 'cloning'")])
        await served.daemon.store.commit(cut)
        place = Path(half["path"])
        place.rename(place.parent / f".partial-{half['repo_id']}")
    async with serving(tmp_path) as served:
        half, whole = [await settled(served, each["repo_id"]) for each in (half, whole)]
        assert half["status"] == "failed"
        assert "stopped" in half["problem"]["message"]
        assert whole["status"] == "ready"
        assert [each.name for each in place.parent.iterdir()] == ["whole"]


async def test_nothing_of_the_daemons_git_settings_reaches_git(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other = new_repository(tmp_path / "other")
    add_commit(other, "secret", "x\n")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(other / ".git"))
    repo = await ask(served, "POST", "/repos", 201, path=str(new_repository(tmp_path / "shop")))
    assert repo["path"] == str(tmp_path / "shop")
