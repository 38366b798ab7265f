"""The services of repositories and worktrees, put together; what they do at a start and an end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from agor.daemon.pool.settings import PoolSettings
from agor.daemon.services.executors import Executors
from agor.daemon.services.live import LiveSessions
from agor.daemon.services.people.people import People
from agor.daemon.services.terminals.registry import OpenTerminals
from agor.daemon.services.workspaces.clones import Clones
from agor.daemon.services.workspaces.git_turns import GitTurns
from agor.daemon.services.workspaces.identities import Identities
from agor.daemon.services.workspaces.orphans import OrphanSearch
from agor.daemon.services.workspaces.reach import Reach
from agor.daemon.services.workspaces.removals import Removals
from agor.daemon.services.workspaces.repos import Repos
from agor.daemon.services.workspaces.workspaces import Workspaces
from agor.daemon.services.workspaces.worktrees import Worktrees
from agor.daemon.store.base import Store
from agor.errors import AgorError

log = structlog.get_logger("agor.workspaces")


class WorkspaceParts:
    """All that has to do with where sessions work."""

    def __init__(
        self,
        store: Store,
        people: People,
        lives: LiveSessions,
        executors: Executors,
        terminals: OpenTerminals,
        settings: PoolSettings,
        home: Path,
    ) -> None:
        identities = self.identities = Identities(people, settings, home)
        reach, turns = Reach(), GitTurns()
        self._clones = Clones(store, identities)
        self.repos = Repos(store, identities, reach, turns, self._clones)
        self.worktrees = Worktrees(store, identities, turns, self.repos, lives)
        self.removals = Removals(
            store, identities, reach, turns, self.worktrees, lives, executors, terminals
        )
        self.orphans = OrphanSearch(
            store, identities, turns, self.worktrees, self.removals, self._clones
        )
        self.grounds = Workspaces(identities, reach, self.worktrees, self.removals)
        self._recovering: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Finish what an earlier daemon was making or removing. Nobody waits for it."""
        self._recovering = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        try:
            await self._clones.recover()
            await self.orphans.recover()
        except AgorError as error:
            log.warning("workspaces_unsettled", why=error.message)

    async def close(self) -> None:
        """End what is under way; the next daemon finds it written down."""
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.gather(self._recovering, return_exceptions=True)
        await self._clones.close()
