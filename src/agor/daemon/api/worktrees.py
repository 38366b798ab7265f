"""Worktrees: make, list, look at, compare, remove; and what was left behind of them."""

from __future__ import annotations

from agor.daemon.api.forms import DiffQuery, PageQuery, RemovalQuery, WorktreesQuery
from agor.daemon.api.route import Request
from agor.protocol.api import Page
from agor.protocol.workspaces import (
    Diff,
    NewWorktree,
    Orphans,
    Prune,
    Worktree,
    WorktreeDetails,
    WorktreeRemoved,
)


async def make(request: Request[NewWorktree]) -> Worktree:
    """Make a worktree of a repository."""
    return await request.services.workspaces.worktrees.make(
        request.who, request.id, request.form, request.receipt
    )


async def page_of_repo(request: Request[PageQuery]) -> Page[Worktree]:
    """List the worktrees of a repository."""
    asked = request.form
    return await request.services.workspaces.worktrees.page(
        request.who, request.id, asked.cursor, asked.limit
    )


async def page(request: Request[WorktreesQuery]) -> Page[Worktree]:
    """List worktrees."""
    asked = request.form
    return await request.services.workspaces.worktrees.page(
        request.who, asked.repo_id, asked.cursor, asked.limit
    )


async def get(request: Request[None]) -> WorktreeDetails:
    """Show a worktree, and how it stands."""
    return await request.services.workspaces.worktrees.get(request.who, request.id)


async def diff(request: Request[DiffQuery]) -> Diff:
    """Show what was done in a worktree."""
    return await request.services.workspaces.worktrees.diff(
        request.who, request.id, request.form.max_bytes
    )


async def diff_of_session(request: Request[DiffQuery]) -> Diff:
    """Show what was done in a session."""
    return await request.services.workspaces.worktrees.diff_of_session(
        request.who, request.id, request.form.max_bytes
    )


async def remove(request: Request[RemovalQuery]) -> WorktreeRemoved:
    """Remove a worktree."""
    discard = request.form.discard == "true"
    return await request.services.workspaces.removals.remove(
        request.who, request.id, discard=discard
    )


async def orphans(request: Request[None]) -> Orphans:
    """Find what was left behind."""
    return await request.services.workspaces.orphans.search(request.who)


async def prune(request: Request[Prune]) -> Orphans:
    """Remove of what was left behind what nothing is lost with."""
    orphans = request.services.workspaces.orphans
    if request.form.dry_run:
        return await orphans.search(request.who)
    return await orphans.prune(request.who, request.receipt)
