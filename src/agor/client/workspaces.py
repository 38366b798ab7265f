"""The client's part for repositories and worktrees: `client.repos`, `client.worktrees`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

from agor.client.calls import Calls
from agor.client.ids import in_path
from agor.errors import TimedOut
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

#: Seconds for what reads or writes all files of a worktree.
_LONG = 1000.0
#: Seconds between two looks at a clone.
_LOOK = 0.25


class Repos:
    """Repositories."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def add(
        self, path: str | Path, *, name: str | None = None, key: str | None = None
    ) -> Repo:
        """Register a repository that is on the daemon's machine."""
        return await self._new(NewRepo(path=str(path), name=name), key)

    async def clone(self, url: str, *, name: str | None = None, key: str | None = None) -> Repo:
        """Begin to clone a repository; `wait_cloned` waits for it."""
        return await self._new(NewRepo(url=url, name=name), key)

    async def wait_cloned(self, repo_id: str, *, timeout: float | None = None) -> Repo:
        """Wait until a clone is `ready` or `failed`; raises `TimedOut`."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    repo = await self.get(repo_id)
                    if repo.status != "cloning":
                        return repo
                    await asyncio.sleep(_LOOK)
        except TimeoutError:
            raise TimedOut(f"the repository is not cloned within {timeout:g} s") from None

    def list(self) -> AsyncIterator[Repo]:
        """List repositories, the newest first."""
        return self._calls.list("/repos", Page[Repo], {})

    async def get(self, repo_id: str) -> Repo:
        """Show a repository."""
        return await self._calls.ask("GET", f"/repos/{in_path(repo_id)}", Repo)

    async def remove(self, repo_id: str) -> None:
        """Forget a repository, or call its clone off. The folder of a whole one stays."""
        await self._calls.ask("DELETE", f"/repos/{in_path(repo_id)}", None)

    async def _new(self, new: NewRepo, key: str | None) -> Repo:
        return await self._calls.ask(
            "POST", "/repos", Repo, body=new, key=key or uuid.uuid4().hex, timeout=_LONG
        )


class Worktrees:
    """Worktrees."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def make(
        self,
        repo_id: str,
        *,
        name: str | None = None,
        branch: str | None = None,
        base: str | None = None,
        key: str | None = None,
    ) -> Worktree:
        """Make a worktree of a repository, on a branch of its own."""
        new = NewWorktree(name=name, branch=branch, base=base)
        return await self._calls.ask(
            "POST", f"/repos/{in_path(repo_id)}/worktrees", Worktree,
            body=new, key=key or uuid.uuid4().hex, timeout=_LONG,
        )  # fmt: skip

    def list(self, *, repo_id: str | None = None) -> AsyncIterator[Worktree]:
        """List worktrees, the newest first."""
        return self._calls.list("/worktrees", Page[Worktree], {"repo_id": repo_id})

    async def get(self, worktree_id: str) -> WorktreeDetails:
        """Show a worktree, and how it stands."""
        path = f"/worktrees/{in_path(worktree_id)}"
        return await self._calls.ask("GET", path, WorktreeDetails, timeout=_LONG)

    async def diff(self, worktree_id: str, *, max_bytes: int | None = None) -> Diff:
        """Show what was done in a worktree."""
        path = f"/worktrees/{in_path(worktree_id)}/diff"
        return await self._calls.ask(
            "GET", path, Diff, query={"max_bytes": max_bytes}, timeout=_LONG
        )

    async def diff_of_session(self, session_id: str, *, max_bytes: int | None = None) -> Diff:
        """Show what was done in a session."""
        path = f"/sessions/{in_path(session_id)}/diff"
        return await self._calls.ask(
            "GET", path, Diff, query={"max_bytes": max_bytes}, timeout=_LONG
        )

    async def remove(self, worktree_id: str, *, discard: bool = False) -> WorktreeRemoved:
        """Remove a worktree. With `discard`, what is in no commit is saved under a hidden ref."""
        path = f"/worktrees/{in_path(worktree_id)}"
        query = {"discard": "true" if discard else None}
        return await self._calls.ask("DELETE", path, WorktreeRemoved, query=query, timeout=_LONG)

    async def orphans(self) -> Orphans:
        """Find what was left behind."""
        return await self._calls.ask("GET", "/worktree-orphans", Orphans, timeout=_LONG)

    async def prune(self, *, key: str | None = None) -> Orphans:
        """Remove of what was left behind what nothing is lost with."""
        return await self._calls.ask(
            "POST", "/worktree-orphans/prune", Orphans,
            body=Prune(), key=key or uuid.uuid4().hex, timeout=_LONG,
        )  # fmt: skip
