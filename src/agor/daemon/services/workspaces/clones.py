"""Clones that are under way: in the background, bounded, and to be called off."""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from agor.daemon.git.addresses import Address
from agor.daemon.git.cloning import clone, remove_partial
from agor.daemon.git.repository import top_level
from agor.daemon.git.worktrees import make_parent
from agor.daemon.services.workspaces.identities import Identities
from agor.daemon.store import repos
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import RepoRow
from agor.errors import AgorError, Conflict, StoreError
from agor.protocol.events import Problem

log = structlog.get_logger("agor.workspaces")

#: At once; and how many may wait for their turn.
_AT_ONCE = 2
_MOST = 32

_CUT = Problem(
    "git_failed",
    "the daemon was stopped while it was being cloned",
    "Remove it and clone it again.",
)
_BUG = Problem("internal_error", "it could not be cloned", "The daemon's log has the details.")


class Clones:
    """Makes clones, each as the person whose it is."""

    def __init__(self, store: Store, identities: Identities) -> None:
        self._store = store
        self._identities = identities
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def recover(self) -> None:
        """Report those that an earlier daemon had not finished; nothing of them is left."""
        for row in await repos.cloning(self._store):
            if await self._is_whole(row):
                await self._settle(row, "ready", row.path, None)
            else:
                await self._settle(row, "failed", row.path, _CUT)

    def refuse_if_crowded(self) -> None:
        """Raise `Conflict` if too many are under way."""
        if len(self._under_way) >= _MOST:
            raise Conflict(
                f"{_MOST} repositories are being cloned already", hint="Try again in a while."
            )

    def begin(self, row: RepoRow, address: Address) -> None:
        """Clone it, in the background."""
        task = asyncio.create_task(self._work(row, address))
        self._under_way[row.repo_id] = task
        task.add_done_callback(lambda _: self._under_way.pop(row.repo_id, None))

    def is_under_way(self, repo_id: str) -> bool:
        """Tell whether a repository is being cloned now."""
        return repo_id in self._under_way

    async def call_off(self, repo_id: str) -> None:
        """End a clone that is under way; nothing of it is left."""
        task = self._under_way.get(repo_id)
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def close(self) -> None:
        """End them all. The next daemon reports them."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, row: RepoRow, address: Address) -> None:
        async with self._room:
            try:
                git = self._identities.git(row.user_id)
                folder = await make_parent(git, row.path.rpartition("/")[0])
                path = await clone(git, address, folder, row.name, row.repo_id)
            except AgorError as error:
                problem = Problem(error.code, error.message, error.hint)
                await self._settle(row, "failed", row.path, problem)
            except Exception:
                log.exception("not_cloned", repo=row.repo_id)
                await self._settle(row, "failed", row.path, _BUG)
            else:
                await self._settle(row, "ready", path, None)

    async def _settle(self, row: RepoRow, status: str, path: str, problem: Problem | None) -> None:
        told = None if problem is None else msgspec.json.encode(problem)
        settled = msgspec.structs.replace(row, status=status, path=path, problem=told)
        try:
            await self._store.commit(Write([repos.update(settled)]))
        except StoreError as error:
            # It stays `cloning`, and the next daemon looks after it.
            log.warning("clone_not_stored", repo=row.repo_id, why=error.message)

    async def _is_whole(self, row: RepoRow) -> bool:
        """Tell whether only the word of it is missing; else nothing of it is left."""
        try:
            git = self._identities.git(row.user_id)
            await remove_partial(git, row.path.rpartition("/")[0], row.repo_id)
            there = await git.shell(["test", "-d", row.path])
            return there.exit_code == 0 and await top_level(git.at(row.path)) == row.path
        except AgorError as error:
            log.warning("clone_not_looked_at", repo=row.repo_id, why=error.message)
            return False
