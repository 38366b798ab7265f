"""The routes of repositories and worktrees."""

from __future__ import annotations

from agor.daemon.api import repos, worktrees
from agor.daemon.api.forms import DiffQuery, PageQuery, RemovalQuery, WorktreesQuery
from agor.daemon.api.route import Route
from agor.errors import Conflict, GitFailed, NotFound, StoreUnavailable, Unprocessable
from agor.protocol.api import Page
from agor.protocol.workspaces import (
    Diff,
    NewRepo,
    NewWorktree,
    Orphans,
    Prune,
    Repo,
    Worktree,
    WorktreeDetails,
    WorktreeRemoved,
)

WORKSPACE_ROUTES: list[Route] = [
    Route(
        method="POST", path="/repos", action="repo.register",
        handler=repos.add,
        summary="Register a repository that is there, or clone one",
        details="A clone is answered with 202 and made in the background: its `status` is "
        "`cloning`, then `ready` or `failed`.",
        body=NewRepo, result=Repo, status=201, also={202: Repo},
        errors=(Conflict, Unprocessable, GitFailed, StoreUnavailable),
    ),
    Route(
        method="GET", path="/repos", action="repo.list",
        handler=repos.page,
        summary="List repositories, the newest first",
        query=PageQuery, result=Page[Repo], errors=(Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/repos/{repo_id}", action="repo.view",
        handler=repos.get,
        summary="Show a repository",
        result=Repo, errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="DELETE", path="/repos/{repo_id}", action="repo.remove",
        handler=repos.remove,
        summary="Forget a repository, or call its clone off; the folder of a whole one stays",
        status=204, errors=(NotFound, Conflict, StoreUnavailable),
    ),
    Route(
        method="GET", path="/repos/{repo_id}/worktrees", action="repo.view",
        handler=worktrees.page_of_repo,
        summary="List the worktrees of a repository, the newest first",
        query=PageQuery, result=Page[Worktree],
        errors=(NotFound, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="POST", path="/repos/{repo_id}/worktrees", action="worktree.make",
        handler=worktrees.make,
        summary="Make a worktree of a repository, on a branch of its own",
        body=NewWorktree, body_optional=True, result=Worktree, status=201,
        errors=(NotFound, Conflict, Unprocessable, GitFailed, StoreUnavailable),
    ),
    Route(
        method="GET", path="/worktrees", action="worktree.list",
        handler=worktrees.page,
        summary="List worktrees, the newest first",
        query=WorktreesQuery, result=Page[Worktree],
        errors=(NotFound, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/worktrees/{worktree_id}", action="worktree.view",
        handler=worktrees.get,
        summary="Show a worktree, and how it stands",
        result=WorktreeDetails, errors=(NotFound, Conflict, GitFailed, StoreUnavailable),
    ),
    Route(
        method="GET", path="/worktrees/{worktree_id}/diff", action="worktree.view",
        handler=worktrees.diff,
        summary="Compare a worktree with the commit it began at",
        query=DiffQuery, result=Diff,
        errors=(NotFound, Conflict, Unprocessable, GitFailed, StoreUnavailable),
    ),
    Route(
        method="DELETE", path="/worktrees/{worktree_id}", action="worktree.remove",
        handler=worktrees.remove,
        summary="Remove a worktree; work that is in no commit is in the way, or saved first",
        query=RemovalQuery, result=WorktreeRemoved,
        errors=(NotFound, Conflict, Unprocessable, GitFailed, StoreUnavailable),
    ),
    Route(
        method="GET", path="/sessions/{session_id}/diff", action="session.view",
        handler=worktrees.diff_of_session,
        summary="Show what was done in a session",
        query=DiffQuery, result=Diff,
        errors=(NotFound, Conflict, Unprocessable, GitFailed, StoreUnavailable),
    ),
    Route(
        method="GET", path="/worktree-orphans", action="worktree.list",
        handler=worktrees.orphans,
        summary="Find what was left behind: on the disk or in the books, and not in the other",
        result=Orphans, errors=(Conflict, StoreUnavailable),
    ),
    Route(
        method="POST", path="/worktree-orphans/prune", action="worktree.remove",
        handler=worktrees.prune,
        summary="Remove of what was left behind what nothing is lost with",
        body=Prune, body_optional=True, result=Orphans,
        errors=(Conflict, Unprocessable, StoreUnavailable),
    ),
]  # fmt: skip
