"""Repositories, as they are stored."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Row, Statement, Store
from agor.daemon.store.rows import RepoRow

_INSERT = mapping.insert("repos", RepoRow, "repo_id")
_SELECT = f"SELECT {mapping.columns(RepoRow)} FROM repos"  # noqa: S608 - names of ours

_read = mapping.reader(RepoRow)


def insert(row: RepoRow) -> Statement:
    """Add a repository."""
    return Statement(_INSERT, mapping.values(row))


def update(row: RepoRow) -> Statement:
    """Store what became of a clone."""
    return Statement(
        "UPDATE repos SET path = ?, status = ?, problem = ? WHERE repo_id = ?",
        (row.path, row.status, row.problem, row.repo_id),
    )


def delete(repo_id: str) -> Statement:
    """Forget a repository."""
    return Statement("DELETE FROM repos WHERE repo_id = ?", (repo_id,))


async def get(store: Store, repo_id: str) -> RepoRow | None:
    """Find a repository."""
    found = await store.read(f"{_SELECT} WHERE repo_id = ?", (repo_id,))
    return _read(found[0]) if found else None


async def page(
    store: Store, user_id: str | None, before: tuple[int, str] | None, limit: int
) -> list[RepoRow]:
    """List repositories, the newest first; `before` is (created_at, repo_id) of the last one."""
    conditions: list[str] = []
    values: Row = ()
    if user_id is not None:
        conditions.append("user_id = ?")
        values += (user_id,)
    if before is not None:
        conditions.append("(created_at, repo_id) < (?, ?)")
        values += before
    found = await store.read(
        f"{_SELECT}{mapping.where(conditions)} ORDER BY created_at DESC, repo_id DESC LIMIT ?",
        (*values, limit),
    )
    return [_read(row) for row in found]


async def named(store: Store, user_id: str, name: str) -> RepoRow | None:
    """Find somebody's repository by its name."""
    found = await store.read(f"{_SELECT} WHERE user_id = ? AND name = ?", (user_id, name))
    return _read(found[0]) if found else None


async def at(store: Store, user_id: str, path: str) -> RepoRow | None:
    """Find somebody's repository by its folder."""
    found = await store.read(f"{_SELECT} WHERE user_id = ? AND path = ?", (user_id, path))
    return _read(found[0]) if found else None


async def cloning(store: Store) -> list[RepoRow]:
    """List those that an earlier daemon was cloning."""
    found = await store.read(f"{_SELECT} WHERE status = ?", ("cloning",))
    return [_read(row) for row in found]
