"""Repositories and worktrees, on every database."""

from __future__ import annotations

from typing import Any

import msgspec

from agor.daemon.store import repos, sessions, worktrees
from agor.daemon.store.base import Store
from agor.daemon.store.rows import RepoRow, WorktreeRow
from tests.store.examples import ODD, a_session, put


def a_repo(repo_id: str = "repo-1", **members: Any) -> RepoRow:
    return RepoRow(
        **{
            "repo_id": repo_id, "user_id": "user-1", "name": "shop", "path": f"/{ODD}",
            "url": ODD, "status": "cloning", "created_at": 5, "problem": b'{"x":1}', **members,
        }
    )  # fmt: skip


def a_worktree(worktree_id: str = "worktree-1", **members: Any) -> WorktreeRow:
    return WorktreeRow(
        **{
            "worktree_id": worktree_id, "repo_id": "repo-1", "user_id": "user-1", "name": "w",
            "path": f"/{ODD}", "branch": ODD, "base": "main", "base_commit": "0" * 40,
            "status": "making", "created_at": 5, **members,
        }
    )  # fmt: skip


async def test_a_repository_comes_back_as_it_was_stored_and_goes(store: Store) -> None:
    await put(store, repos.insert(a_repo()), repos.insert(a_repo(name="another")))
    assert await repos.get(store, "repo-1") == a_repo(), "the first counts"
    ready = msgspec.structs.replace(a_repo(), status="ready", path="/there", problem=None)
    await put(store, repos.update(ready), repos.update(ready))
    assert await repos.get(store, "repo-1") == ready
    assert await repos.at(store, "user-1", "/there") == ready
    assert await repos.at(store, "user-2", "/there") is None
    assert await repos.named(store, "user-1", "shop") == ready
    await put(store, repos.delete("repo-1"), repos.delete("repo-1"))
    assert await repos.get(store, "repo-1") is None


async def test_repositories_are_paged_by_person_the_newest_first(store: Store) -> None:
    rows = [a_repo(f"r{n}", user_id=f"user-{n % 2}", created_at=n // 3) for n in range(6)]
    await put(store, *(repos.insert(row) for row in rows))
    everybody = await repos.page(store, None, None, 9)
    assert [row.repo_id for row in everybody] == ["r5", "r4", "r3", "r2", "r1", "r0"]
    after = await repos.page(store, "user-1", (everybody[0].created_at, "r5"), 9)
    assert [row.repo_id for row in after] == ["r3", "r1"]
    assert len(await repos.cloning(store)) == 6


async def test_a_worktree_goes_through_its_states(store: Store) -> None:
    await put(store, worktrees.insert(a_worktree()))
    assert await worktrees.unfinished(store) == [a_worktree()]
    await put(store, worktrees.set_status("worktree-1", "ready"))
    ready = msgspec.structs.replace(a_worktree(), status="ready")
    assert await worktrees.get(store, "worktree-1") == ready
    assert await worktrees.unfinished(store) == []
    assert await worktrees.named(store, "repo-1", "w") == ready
    assert await worktrees.named(store, "repo-2", "w") is None
    assert await worktrees.is_known(store, ready.path)
    assert not await worktrees.is_known(store, "/elsewhere")
    await put(store, worktrees.delete("worktree-1"))
    assert await worktrees.get(store, "worktree-1") is None


async def test_worktrees_are_paged_by_person_and_repository(store: Store) -> None:
    rows = [
        a_worktree(f"w{n}", repo_id=f"repo-{n % 2}", user_id=f"user-{n % 3}", created_at=n)
        for n in range(6)
    ]
    await put(store, *(worktrees.insert(row) for row in rows))
    found = await worktrees.page(store, None, "repo-1", None, 2)
    assert [row.worktree_id for row in found] == ["w5", "w3"]
    found = await worktrees.page(store, None, "repo-1", (3, "w3"), 2)
    assert [row.worktree_id for row in found] == ["w1"]
    found = await worktrees.page(store, "user-1", None, None, 9)
    assert [row.worktree_id for row in found] == ["w4", "w1"]


async def test_the_sessions_in_a_worktree_are_found(store: Store) -> None:
    await put(
        store,
        sessions.insert(a_session("s1", 1, worktree_id="worktree-1")),
        sessions.insert(a_session("s2", 2, worktree_id="worktree-1")),
        sessions.insert(a_session("s3", 3)),
    )
    assert await worktrees.sessions_in(store, "worktree-1", 10) == ["s1", "s2"]
    assert await worktrees.sessions_in(store, "worktree-1", 1) == ["s1"]
    assert (await sessions.get(store, "s3")) == a_session("s3", 3)
