"""What crashes and hands leave behind: found, settled at a start, pruned if nothing is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.store.base import Statement, Write
from tests.api.repositories import (
    add_commit,
    ask,
    git,
    new_repository,
    registered,
    state_of,
    worktree,
)
from tests.api.serving import Served, serving
from tests.contract.waiting import PATIENCE


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "shop")


async def found_by(served: Served, method: str, path: str, **body: object) -> dict[str, Any]:
    """Look for orphans; gives them by kind."""
    answer = await ask(served, method, path, 200, **body)
    assert answer["unseen"] == []
    return {each["kind"]: each for each in answer["items"]}


async def tell(served: Served, sql: str) -> None:
    await served.daemon.store.commit(Write([Statement(sql)]))


async def test_where_all_is_well_nothing_is_found(served: Served, shop: Path):
    await worktree(served, await registered(served, shop))
    assert await found_by(served, "GET", "/worktree-orphans") == {}


async def test_a_folder_that_is_gone_is_found_and_pruned_with_its_commits_kept(
    served: Served, shop: Path
):
    _, path = await worktree(served, await registered(served, shop))
    commit = add_commit(path, "done", "x\n")
    path.rename(path.parent.parent.parent / "away")
    found = await found_by(served, "GET", "/worktree-orphans")
    assert found["folder_gone"]["path"] == str(path)
    dry = await found_by(served, "POST", "/worktree-orphans/prune", dry_run=True)
    assert not dry["folder_gone"]["removed"]
    assert len((await ask(served, "GET", "/worktrees", 200))["items"]) == 1
    pruned = await found_by(served, "POST", "/worktree-orphans/prune")
    assert pruned["folder_gone"]["removed"]
    assert (await ask(served, "GET", "/worktrees", 200))["items"] == []
    assert git(shop, "rev-parse", "agor/w") == commit
    left = await found_by(served, "GET", "/worktree-orphans")
    assert "not pushed" in left["unknown_branch"]["kept"]


async def test_a_worktree_that_was_moved_is_kept(served: Served, shop: Path):
    _, path = await worktree(served, await registered(served, shop))
    elsewhere = shop.with_name("elsewhere")
    git(shop, "worktree", "move", str(path), str(elsewhere))
    pruned = await found_by(served, "POST", "/worktree-orphans/prune")
    assert str(elsewhere) in pruned["folder_moved"]["detail"]
    assert pruned["folder_moved"]["kept"]
    assert elsewhere.exists()


async def test_a_worktree_that_is_in_no_book_goes_only_without_work(served: Served, shop: Path):
    _, path = await worktree(served, await registered(served, shop))
    await tell(served, "DELETE FROM worktrees")
    (path / "new").write_text("x")
    pruned = await found_by(served, "POST", "/worktree-orphans/prune")
    assert "1 new files (new)" in pruned["unknown_folder"]["kept"]
    assert (path / "new").exists()
    (path / "new").unlink()
    pruned = await found_by(served, "POST", "/worktree-orphans/prune")
    assert pruned["unknown_folder"]["removed"]
    assert not path.exists()
    assert git(shop, "branch", "--list") == "* main"


async def test_a_worktree_that_is_in_no_book_stays_while_it_alone_has_commits(
    served: Served, shop: Path
):
    _, path = await worktree(served, await registered(served, shop))
    await tell(served, "DELETE FROM worktrees")
    git(path, "checkout", "-q", "--detach")
    commit = add_commit(path, "done", "x\n")
    path.rename(path.parent.parent / "away")
    pruned = await found_by(served, "POST", "/worktree-orphans/prune")
    assert commit in pruned["unknown_folder"]["kept"]
    assert commit in git(shop, "worktree", "list", "--porcelain")


async def test_a_folder_that_cannot_be_looked_at_is_not_taken_for_gone(served: Served, shop: Path):
    worktree_id, path = await worktree(served, await registered(served, shop))
    (path / "file").write_text("staged\n")
    git(path, "add", "file")
    # Like the home of another Unix user: it is there, and nobody can say what is in it.
    away = path.parent.rename(path.parent.with_name("away"))
    path.parent.symlink_to(path.parent.name)
    assert (await state_of(served, worktree_id))["folder"] == "unreadable"
    pruned = await ask(served, "POST", "/worktree-orphans/prune", 200)
    assert str(path) in pruned["unseen"][0]
    await ask(served, "DELETE", f"/worktrees/{worktree_id}", 503)
    path.parent.unlink()
    away.rename(path.parent)
    assert git(path, "diff", "--cached", "--name-only") == "file"


async def test_a_folder_that_nobody_knows_is_shown_and_left_alone(served: Served, shop: Path):
    _, path = await worktree(served, await registered(served, shop))
    (path.parent / "what").mkdir()
    (path.parent / "what" / "precious").write_text("x")
    pruned = await found_by(served, "POST", "/worktree-orphans/prune")
    assert pruned["unknown_folder"]["path"] == str(path.parent / "what")
    assert (path.parent / "what" / "precious").exists()


async def test_a_repository_that_cannot_be_looked_at_is_told(served: Served, shop: Path):
    await registered(served, shop)
    shop.rename(shop.with_name("away"))
    found = await ask(served, "GET", "/worktree-orphans", 200)
    assert found["items"] == []
    assert str(shop) in found["unseen"][0]


# ── after a crash ────────────────────────────────────────────────────────────────────────────


async def settled(served: Served) -> list[dict[str, Any]]:
    """Wait until the daemon has looked after what its predecessor left; gives the worktrees."""
    async with asyncio.timeout(PATIENCE):
        while True:
            rows: list[dict[str, Any]] = (await ask(served, "GET", "/worktrees", 200))["items"]
            if all(row["status"] == "ready" for row in rows):
                return rows
            await asyncio.sleep(0.01)


async def test_what_a_crash_left_half_made_is_gone_after_the_next_start(tmp_path: Path, shop: Path):
    async with serving(tmp_path) as served:
        repo_id = await registered(served, shop)
        _, whole = await worktree(served, repo_id, name="whole")
        _, planned = await worktree(served, repo_id, name="planned")
        await tell(served, "UPDATE worktrees SET status = 'making'")
        # Of this one there was only the plan.
        git(shop, "worktree", "remove", str(planned))
        git(shop, "branch", "-D", "agor/planned")
    async with serving(tmp_path) as served:
        assert await settled(served) == []
        assert not whole.exists()
        assert git(shop, "branch", "--list") == "* main"


async def test_what_a_crash_left_half_made_is_kept_if_somebody_works_there(
    tmp_path: Path, shop: Path
):
    async with serving(tmp_path) as served:
        _, path = await worktree(served, await registered(served, shop))
        add_commit(path, "done", "x\n")
        await tell(served, "UPDATE worktrees SET status = 'making'")
    async with serving(tmp_path) as served:
        assert [row["path"] for row in await settled(served)] == [str(path)]
        assert (path / "done").exists()


async def test_what_a_crash_left_half_removed_is_there_or_gone_after_the_next_start(
    tmp_path: Path, shop: Path
):
    async with serving(tmp_path) as served:
        repo_id = await registered(served, shop)
        _, there = await worktree(served, repo_id, name="there")
        _, gone = await worktree(served, repo_id, name="gone")
        add_commit(gone, "done", "x\n")
        await tell(served, "UPDATE worktrees SET status = 'removing'")
        gone.rename(tmp_path / "away")
    async with serving(tmp_path) as served:
        assert [row["path"] for row in await settled(served)] == [str(there)]
        assert git(shop, "show", "agor/gone:done") == "x"


async def test_what_was_on_no_branch_outlives_a_crash_during_its_removal(
    tmp_path: Path, shop: Path
):
    async with serving(tmp_path) as served:
        worktree_id, path = await worktree(served, await registered(served, shop))
        git(path, "checkout", "-q", "--detach")
        commit = add_commit(path, "done", "x\n")
        path.rename(tmp_path / "away")
        await tell(served, "UPDATE worktrees SET status = 'removing'")
    async with serving(tmp_path) as served:
        assert await settled(served) == []
        assert git(shop, "rev-parse", f"refs/agor/discarded/{worktree_id}") == commit
        noted = await ask(served, "GET", "/audit?action=worktree.removed", 200)
        assert [(each["actor"], each["subject"]) for each in noted["items"]] == [
            ("daemon", worktree_id)
        ]
