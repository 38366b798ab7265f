"""A page of a list is as much work after ten times as many rows, on both databases."""

from __future__ import annotations

import functools
from typing import Any, Protocol

import pytest

from agor.daemon.store import permissions, repos, sessions, shares, worktrees
from agor.daemon.store.base import Statement, Store
from agor.daemon.store.rows import RepoRow, ShareRow, WorktreeRow
from agor.daemon.store.shares import Circle
from tests.store.effort import effort
from tests.store.examples import a_permission, a_session, put

FEW, MANY = 500, 5000
PAGE = 20
#: The key of a row in the middle of what there is.
Middle = tuple[int, str]

OWN, SHARED, BOTH = Circle("ann", shared=False), Circle("ann", own=False), Circle("ann")


class Ask(Protocol):
    """Asks a store for one page."""

    async def __call__(self, db: Any, before: Middle | None) -> object: ...


LISTS: dict[str, Ask] = {
    "sessions of everybody": lambda db, before: sessions.page(db, None, None, before, PAGE),
    "sessions of a person": lambda db, before: sessions.page(db, BOTH, None, before, PAGE),
    "own sessions": lambda db, before: sessions.page(db, OWN, None, before, PAGE),
    "shared sessions": lambda db, before: sessions.page(db, SHARED, None, before, PAGE),
    "sessions of a person by status": lambda db, before: sessions.page(
        db, BOTH, "failed", before, PAGE
    ),
    "permissions of everybody": lambda db, before: permissions.page(db, None, None, before, PAGE),
    "own permissions": lambda db, before: permissions.page(db, OWN, None, before, PAGE),
    "own pending permissions": lambda db, before: permissions.page(
        db, OWN, "pending", before, PAGE
    ),
    "worktrees of everybody": lambda db, before: worktrees.page(db, None, None, before, PAGE),
    "worktrees of a person": lambda db, before: worktrees.page(db, "ann", None, before, PAGE),
    "worktrees of a repository": lambda db, before: worktrees.page(db, None, "repo", before, PAGE),
    "repositories of everybody": lambda db, before: repos.page(db, None, before, PAGE),
    "repositories of a person": lambda db, before: repos.page(db, "ann", before, PAGE),
}


def rows(number: int) -> list[Statement]:
    """One more of everything: half is Ann's, and of the other half much is shared with her."""
    own, name = number % 2 == 0, f"{number:06}"
    user, status = "ann" if own else "bob", "failed" if number % 3 else "idle"
    session = a_session(name, number, user_id=user, status=status, created_at=number)
    asked = "pending" if number % 3 else "allowed"
    made = [
        sessions.insert(session),
        permissions.insert(
            a_permission(name, user_id=user, session_id=name, created_at=number, status=asked)
        ),
        repos.insert(a_repo(name, user, number)),
        worktrees.insert(a_worktree(name, user, number)),
    ]
    if not own:
        made.append(shares.put(a_share(name, number)))
    return made


def a_share(session_id: str, at: int) -> ShareRow:
    return ShareRow(
        session_id=session_id, user_id="ann", access="view", created_by="bob", created_at=1,
        session_created_at=at,
    )  # fmt: skip


def a_repo(name: str, user: str, at: int) -> RepoRow:
    return RepoRow(
        repo_id=name, user_id=user, name=name, path=f"/{name}", url=None, status="ready",
        created_at=at, problem=None,
    )  # fmt: skip


def a_worktree(name: str, user: str, at: int) -> WorktreeRow:
    return WorktreeRow(
        worktree_id=name, repo_id="repo" if at % 5 else "other", user_id=user, name=name,
        path=f"/{name}", branch="b", base="main", base_commit="c", status="ready", created_at=at,
    )  # fmt: skip


@pytest.fixture
async def efforts(store: Store, url: str) -> dict[str, list[int]]:
    """The work of each list's first and later page, with few rows and with many."""
    found: dict[str, list[int]] = {}
    first = 1
    for count in (FEW, MANY):
        made = [each for number in range(first, count + 1) for each in rows(number)]
        # The same statements one after another go in by many rows at once.
        await put(store, *sorted(made, key=lambda statement: statement.sql))
        first = count + 1
        for name, ask in LISTS.items():
            for before in (None, (count // 2, f"{count // 2:06}")):
                work = await effort(url, functools.partial(ask, before=before))
                found.setdefault(f"{name}, {'later' if before else 'first'} page", []).append(work)
    return found


async def test_ten_times_as_many_rows_are_no_more_work_for_a_page(efforts: dict[str, list[int]]):
    grown = {name: work for name, work in efforts.items() if work[1] > 2 * work[0]}
    assert grown == {}


async def test_own_and_shared_sessions_come_in_one_order_with_no_gap(store: Store):
    made = [each for number in range(1, 60) for each in rows(number)]
    await put(store, *made)
    for circle, expected in (
        (BOTH, range(59, 0, -1)),
        (OWN, range(58, 0, -2)),
        (SHARED, range(59, 0, -2)),
    ):
        seen: list[int] = []
        before: Middle | None = None
        while page := await sessions.page(store, circle, None, before, 7):
            seen += [row.number for row in page]
            before = (page[-1].created_at, page[-1].session_id)
        assert seen == list(expected)


async def test_permissions_of_own_and_shared_sessions_come_in_one_order(store: Store):
    await put(store, *(each for number in range(1, 40) for each in rows(number)))
    seen: list[int] = []
    before: Middle | None = None
    while page := await permissions.page(store, BOTH, "pending", before, 5):
        seen += [row.created_at for row in page]
        before = (page[-1].created_at, page[-1].permission_id)
    assert seen == [number for number in range(39, 0, -1) if number % 3]
