"""Where a session works: a folder, a worktree, or a new worktree of a repository."""

from __future__ import annotations

from typing import NamedTuple

from agor.daemon.services.principal import Principal
from agor.daemon.services.workspaces.identities import Identities
from agor.daemon.services.workspaces.reach import Reach
from agor.daemon.services.workspaces.removals import Removals
from agor.daemon.services.workspaces.worktrees import Worktrees
from agor.daemon.store.rows import SessionRow
from agor.errors import Conflict, Forbidden, Unprocessable
from agor.protocol.api import NewSession
from agor.protocol.validation import quoted
from agor.protocol.workspaces import NewWorktree


class Ground(NamedTuple):
    """What a session is built on."""

    workspace: str
    worktree_id: str | None
    #: Whether the worktree was made for this session, and goes if the session cannot be begun.
    is_new: bool = False


class Workspaces:
    """Finds out where sessions can work, and whether they still can."""

    def __init__(
        self, identities: Identities, reach: Reach, worktrees: Worktrees, removals: Removals
    ) -> None:
        self._identities = identities
        self._reach = reach
        self._worktrees = worktrees
        self._removals = removals

    async def prepare(self, who: Principal, new: NewSession) -> Ground:
        """Find or make what a new session is to work in."""
        given = [name for name in _WAYS if getattr(new, name) is not None]
        if len(given) != 1:
            raise Unprocessable(
                f"body: give exactly one of {', '.join(_WAYS)}; "
                + (f"{' and '.join(given)} are there" if given else "none is there"),
                hint="workspace is a folder, worktree_id a worktree that is there; with repo_id "
                "the session gets a worktree of its own.",
            )
        if new.workspace is not None:
            await self._check(who.user_id, new.workspace)
            return Ground(new.workspace, None)
        if new.worktree_id is not None:
            return await self._use(who, new.worktree_id)
        assert new.repo_id is not None
        made = await self._worktrees.make(who, new.repo_id, NewWorktree())
        return Ground(made.path, made.worktree_id, is_new=True)

    async def _use(self, who: Principal, worktree_id: str) -> Ground:
        row = await self._worktrees.row_for(who, worktree_id, "worktree.view")
        if row.user_id != who.user_id:
            raise Forbidden(
                "this worktree is somebody else's: a session of yours could not work there",
                hint="Make one of your own: POST /repos/{repo_id}/worktrees.",
            )
        self._removals.refuse_if_leaving(worktree_id)
        if row.status != "ready":
            raise Conflict(f"the worktree {quoted(row.name)} is not ready: it is {row.status}")
        await self._check(who.user_id, row.path)
        return Ground(row.path, worktree_id)

    async def abandon(self, who: Principal, ground: Ground) -> None:
        """Take back a worktree that was made for a session that could not be begun."""
        if ground.is_new and ground.worktree_id is not None:
            await self._removals.remove(who, ground.worktree_id, discard=False)

    def refuse_if_leaving(self, row: SessionRow) -> None:
        """Raise `Conflict` if a session's worktree is being removed."""
        self._removals.refuse_if_leaving(row.worktree_id)

    async def check_reachable(self, row: SessionRow) -> None:
        """Raise, with what to do about it, if an executor cannot start in a session's folder."""
        self._reach.forget(row.workspace)
        await self._check(row.user_id, row.workspace)

    async def _check(self, user_id: str, folder: str) -> None:
        if not folder.startswith("/"):
            raise Unprocessable(
                f"workspace: {quoted(folder)} is not an absolute path",
                hint="The daemon has no folder of its own to begin from.",
            )
        await self._reach.check(self._identities.of(user_id), folder)


_WAYS = ("workspace", "worktree_id", "repo_id")
