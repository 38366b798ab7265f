"""Worktrees, as they are stored."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Row, Statement, Store
from agor.daemon.store.rows import WorktreeRow
from agor.protocol.workspaces import WorktreeStatus

_INSERT = mapping.insert("worktrees", WorktreeRow, "worktree_id")
_SELECT = f"SELECT {mapping.columns(WorktreeRow)} FROM worktrees"  # noqa: S608 - names of ours

_read = mapping.reader(WorktreeRow)


def insert(row: WorktreeRow) -> Statement:
    """Add a worktree."""
    return Statement(_INSERT, mapping.values(row))


def set_status(worktree_id: str, status: WorktreeStatus) -> Statement:
    """Store what is being done to a worktree."""
    return Statement("UPDATE worktrees SET status = ? WHERE worktree_id = ?", (status, worktree_id))


def delete(worktree_id: str) -> Statement:
    """Forget a worktree."""
    return Statement("DELETE FROM worktrees WHERE worktree_id = ?", (worktree_id,))


async def get(store: Store, worktree_id: str) -> WorktreeRow | None:
    """Find a worktree."""
    found = await store.read(f"{_SELECT} WHERE worktree_id = ?", (worktree_id,))
    return _read(found[0]) if found else None


async def page(
    store: Store,
    user_id: str | None,
    repo_id: str | None,
    before: tuple[int, str] | None,
    limit: int,
) -> list[WorktreeRow]:
    """List worktrees, the newest first; `before` is (created_at, worktree_id) of the last one."""
    conditions: list[str] = []
    values: Row = ()
    for column, value in (("user_id", user_id), ("repo_id", repo_id)):
        if value is not None:
            conditions.append(f"{column} = ?")
            values += (value,)
    if before is not None:
        conditions.append("(created_at, worktree_id) < (?, ?)")
        values += before
    found = await store.read(
        f"{_SELECT}{mapping.where(conditions)} ORDER BY created_at DESC, worktree_id DESC LIMIT ?",
        (*values, limit),
    )
    return [_read(row) for row in found]


async def named(store: Store, repo_id: str, name: str) -> WorktreeRow | None:
    """Find a repository's worktree by its name."""
    found = await store.read(f"{_SELECT} WHERE repo_id = ? AND name = ?", (repo_id, name))
    return _read(found[0]) if found else None


async def unfinished(store: Store) -> list[WorktreeRow]:
    """List those that an earlier daemon was making or removing."""
    found = await store.read(f"{_SELECT} WHERE status <> ?", ("ready",))
    return [_read(row) for row in found]


async def is_known(store: Store, path: str) -> bool:
    """Tell whether a folder is anybody's worktree."""
    return bool(await store.read("SELECT 1 FROM worktrees WHERE path = ? LIMIT 1", (path,)))


async def sessions_in(store: Store, worktree_id: str, limit: int) -> list[str]:
    """List the sessions that work in a worktree."""
    found = await store.read(
        "SELECT session_id FROM sessions WHERE worktree_id = ? ORDER BY session_id LIMIT ?",
        (worktree_id, limit),
    )
    return [session_id for (session_id,) in found]
