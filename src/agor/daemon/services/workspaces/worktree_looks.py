"""How a worktree stands, put together from our books, git's books, and the folder itself."""

from __future__ import annotations

import asyncio

from agor.daemon.git.command import Git, reason
from agor.daemon.git.differences import Difference
from agor.daemon.git.repository import Listed, worktrees_of
from agor.daemon.git.state import changes_in, disk_use, distance
from agor.daemon.store.rows import WorktreeRow
from agor.errors import GitFailed
from agor.protocol.validation import quoted
from agor.protocol.workspaces import (
    ChangedFile,
    Diff,
    FileChange,
    FolderState,
    Worktree,
    WorktreeState,
)


async def is_there(git: Git, path: str) -> bool:
    """Tell whether a folder is there; raises `GitFailed` if that cannot be told."""
    looked = await git.at("/").shell(["stat", "--dereference", "--format=%F", "--", path])
    if looked.exit_code == 0:
        return looked.stdout.strip() == b"directory"
    why = reason(looked)
    # A home that may not be entered, or a disk that does not answer, is not an empty one.
    if not why.endswith(("No such file or directory", "Not a directory")):
        raise GitFailed(
            f"{git.identity.name} cannot look at {quoted(path)}: {why}",
            hint="Is it the folder of another Unix user, or on a disk that is away?",
        )
    return False


async def find_folder(git: Git, row: WorktreeRow) -> tuple[FolderState, str | None, Listed | None]:
    """Tell where a worktree's folder is, what is to be said of that, and what git has of it."""
    listed = await worktrees_of(git)
    mine = next((each for each in listed if each.path == row.path), None)
    there = await is_there(git, row.path)
    if mine is not None and mine.locked is not None:
        why = f"locked: {mine.locked or 'nobody said why'}"
        return "locked", why if there else f"{why}; and the folder is gone", mine
    if mine is not None and there:
        return "there", None, mine
    elsewhere = next((each for each in listed[1:] if each.branch == row.branch), None)
    if mine is None and elsewhere is not None:
        return "moved", f"it is at {elsewhere.path}", elsewhere
    if there:
        return "unreadable", "git does not know of this folder any more: git worktree repair", None
    return "gone", "the folder is not there", mine


async def look_at(git: Git, row: WorktreeRow) -> WorktreeState:
    """Look at a worktree; `git` is in its repository. What cannot be looked at is told as such."""
    try:
        folder, detail, _ = await find_folder(git, row)
        if folder not in ("there", "locked") or (detail or "").endswith("gone"):
            return WorktreeState(folder=folder, detail=detail)
        inside = git.at(row.path)
        changes, far, (size, all_of_it) = await asyncio.gather(
            changes_in(inside), distance(inside, row.base, row.base_commit), disk_use(inside)
        )
    except GitFailed as error:
        return WorktreeState(folder="unreadable", detail=error.message)
    return WorktreeState(
        folder=folder,
        detail=detail,
        head_commit=changes.head,
        head_branch=changes.branch,
        changed=changes.changed,
        untracked=changes.untracked,
        ignored=changes.ignored,
        files=[ChangedFile(path=path, code=code) for code, path in changes.named],
        ahead=far.ahead,
        behind=far.behind,
        unpushed=far.unpushed,
        disk_bytes=size,
        counts_cut=changes.cut,
        disk_cut=not all_of_it,
    )


def show(row: WorktreeRow) -> Worktree:
    """Show a worktree."""
    return Worktree(
        worktree_id=row.worktree_id,
        repo_id=row.repo_id,
        user_id=row.user_id,
        name=row.name,
        path=row.path,
        branch=row.branch,
        base=row.base,
        base_commit=row.base_commit,
        status=row.status,
        created_at=row.created_at,
    )


def show_diff(row: WorktreeRow, found: Difference) -> Diff:
    """Show a difference."""
    return Diff(
        worktree_id=row.worktree_id,
        base_commit=row.base_commit,
        head_commit=found.head,
        files=[
            FileChange(
                path=each.path,
                old_path=each.old_path,
                status=each.status,
                additions=each.additions,
                deletions=each.deletions,
                binary=each.additions is None and each.status != "U",
            )
            for each in found.files
        ],
        files_cut=found.files_cut,
        patch=found.patch.decode("utf-8", "replace"),
        patch_cut=found.patch_cut,
    )
