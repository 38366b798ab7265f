"""What was left behind: in our books and not on the disk, or on the disk and not in our books.

Every change of a repository holds its turn while it is under way. Whoever has the turn and still
finds something half made or half removed has found what a crash left.
"""

from __future__ import annotations

import structlog

from agor.daemon.git.cloning import PARTIAL, remove_partial
from agor.daemon.git.command import Git
from agor.daemon.git.repository import Listed, worktrees_of
from agor.daemon.git.worktrees import drop_branch_if_safe
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.workspaces.clones import Clones
from agor.daemon.services.workspaces.git_turns import GitTurns
from agor.daemon.services.workspaces.identities import Identities
from agor.daemon.services.workspaces.removals import Removals
from agor.daemon.services.workspaces.worktree_looks import is_there
from agor.daemon.services.workspaces.worktrees import Worktrees
from agor.daemon.store import repos, worktrees
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import RepoRow, WorktreeRow
from agor.errors import AgorError
from agor.protocol.workspaces import Orphan, Orphans

log = structlog.get_logger("agor.workspaces")

#: Repositories and worktrees that are looked at in one go.
_MOST_REPOS, _MOST_WORKTREES = 200, 1000
_MOST_FOUND = 1000
_OURS = "agor/"


class OrphanSearch:
    """Looks for orphans, and removes those that nothing is lost with."""

    def __init__(
        self,
        store: Store,
        identities: Identities,
        turns: GitTurns,
        worktree_service: Worktrees,
        removals: Removals,
        clones: Clones,
    ) -> None:
        self._store = store
        self._identities = identities
        self._turns = turns
        self._worktrees = worktree_service
        self._removals = removals
        self._clones = clones

    async def recover(self) -> None:
        """Settle what an earlier daemon was making or removing."""
        for row in await worktrees.unfinished(self._store):
            try:
                repo = await self._worktrees.repo_of(row)
                async with self._turns.changing(repo.path):
                    await self._settle(self._identities.git(row.user_id, repo.path), row)
            except AgorError as error:
                # It is shown as an orphan, and its owner can have it looked at again.
                log.warning("worktree_unsettled", worktree=row.worktree_id, why=error.message)

    async def prune(self, who: Principal, receipt: Receipt | None = None) -> Orphans:
        """Remove of somebody's own what nothing is lost with."""
        found = await self.search(who, prune=True)
        if receipt is not None:
            await self._store.commit(Write([receipt.statement(200, found)]))
        return found

    async def search(self, who: Principal, *, prune: bool = False) -> Orphans:
        """Find what is somebody's own; with `prune`, remove what nothing is lost with."""
        found = Orphans(items=[], unseen=[])
        for repo in await repos.page(self._store, who.user_id, None, _MOST_REPOS):
            if repo.status != "ready":
                continue
            try:
                async with self._turns.changing(repo.path):
                    await self._search_repo(who, repo, found, prune=prune)
            except AgorError as error:
                found.unseen.append(f"{repo.name}: {error.message}")
        try:
            await self._search_clones(who, found, prune=prune)
        except AgorError as error:
            found.unseen.append(f"clones: {error.message}")
        del found.items[_MOST_FOUND:]
        return found

    # ── one repository ───────────────────────────────────────────────────────────────────────

    async def _search_repo(
        self, who: Principal, repo: RepoRow, found: Orphans, *, prune: bool
    ) -> None:
        git = self._identities.git(repo.user_id, repo.path)
        listed = await worktrees_of(git)
        rows = await worktrees.page(self._store, None, repo.repo_id, None, _MOST_WORKTREES)
        folder = f"{self._identities.folder(git.identity, 'worktrees')}/{repo.name}"
        names, real = await _entries(git, folder)
        for row in rows:
            orphan = await self._look_at_row(git, row, listed)
            if orphan is not None:
                if prune and orphan.kept is None:
                    await self._prune_row(who, git, row, orphan)
                found.items.append(orphan)
        known = {row.path for row in rows}
        for each in listed[1:]:
            if each.path.startswith(f"{real}/") and each.path not in known:
                orphan = await self._look_at_folder(git, repo, each)
                if prune and orphan.kept is None:
                    await _prune_folder(git, each, orphan)
                found.items.append(orphan)
        in_git = {each.path for each in listed}
        for name in names:
            path = f"{real}/{name}"
            if path not in in_git | known and not await worktrees.is_known(self._store, path):
                found.items.append(
                    Orphan(
                        kind="unknown_folder", path=path, repo_id=repo.repo_id,
                        detail="neither we nor git know what this folder is",
                        kept="look at it yourself",
                    )
                )  # fmt: skip
        await self._search_branches(git, repo, rows, found, prune=prune)

    async def _look_at_row(self, git: Git, row: WorktreeRow, listed: list[Listed]) -> Orphan | None:
        orphan = Orphan(
            kind="folder_gone", detail="its folder is gone", path=row.path, branch=row.branch,
            repo_id=row.repo_id, worktree_id=row.worktree_id,
        )  # fmt: skip
        if row.status == "making":
            orphan.kind, orphan.detail = "half_made", "it was being made at a crash"
            return orphan
        if row.status == "removing":
            orphan.kind, orphan.detail = "half_removed", "it was being removed at a crash"
            return orphan
        if await is_there(git, row.path):
            return None
        mine = next((each for each in listed if each.path == row.path), None)
        elsewhere = next((each for each in listed[1:] if each.branch == row.branch), None)
        if mine is None and elsewhere is not None:
            orphan.kind, orphan.detail = "folder_moved", f"it was moved to {elsewhere.path}"
            orphan.kept = "it is in use there"
        elif mine is not None and mine.locked is not None:
            orphan.kept = "it is locked"
        return orphan

    async def _prune_row(self, who: Principal, git: Git, row: WorktreeRow, orphan: Orphan) -> None:
        try:
            if row.status == "ready":
                await self._removals.remove_here(who, git, row)
                orphan.removed = True
            else:
                orphan.removed = await self._settle(git, row)
        except AgorError as error:
            orphan.kept = error.message

    async def _settle(self, git: Git, row: WorktreeRow) -> bool:
        """Finish what a crash interrupted; False if the worktree is there, and stays."""
        if row.status == "making":
            await self._worktrees.undo(git, row)
            return await worktrees.get(self._store, row.worktree_id) is None
        if await is_there(git, row.path):
            await self._store.commit(Write([worktrees.set_status(row.worktree_id, "ready")]))
            return False
        # As if its folder had been gone before: commits on no branch are kept, and it is noted.
        await self._removals.remove_here(None, git, row)
        return True

    async def _look_at_folder(self, git: Git, repo: RepoRow, each: Listed) -> Orphan:
        orphan = Orphan(
            kind="unknown_folder", path=each.path, branch=each.branch, repo_id=repo.repo_id,
            detail="a worktree that is not in our books",
        )  # fmt: skip
        if await worktrees.is_known(self._store, each.path):
            orphan.detail, orphan.kept = "a worktree of somebody else's", "it is not yours"
        elif each.locked is not None:
            orphan.kept = "it is locked"
        else:
            try:
                lost = await self._removals.losses(git, each)
                orphan.kept = "; ".join(lost) or None
            except AgorError as error:
                orphan.kept = error.message
        return orphan

    async def _search_branches(
        self, git: Git, repo: RepoRow, rows: list[WorktreeRow], found: Orphans, *, prune: bool
    ) -> None:
        """Find branches that we made for worktrees that are no more."""
        ran = await git(
            "for-each-ref", "--format=%(refname:strip=2)", f"--count={_MOST_FOUND}",
            f"refs/heads/{_OURS}",
        )  # fmt: skip
        used = {row.branch for row in rows} | {each.branch for each in await worktrees_of(git)}
        for branch in ran.stdout.decode(errors="backslashreplace").splitlines():
            if branch in used:
                continue
            orphan = Orphan(
                kind="unknown_branch", branch=branch, repo_id=repo.repo_id,
                detail="a branch of a worktree that is no more",
            )  # fmt: skip
            orphan.kept = await drop_branch_if_safe(git, branch, dry_run=not prune)
            orphan.removed = prune and orphan.kept is None
            found.items.append(orphan)

    # ── clones ───────────────────────────────────────────────────────────────────────────────

    async def _search_clones(self, who: Principal, found: Orphans, *, prune: bool) -> None:
        git = self._identities.git(who.user_id)
        names, folder = await _entries(git, self._identities.folder(git.identity, "repos"))
        for name in names:
            repo_id = name.removeprefix(PARTIAL)
            if name == repo_id or self._clones.is_under_way(repo_id):
                continue
            orphan = Orphan(
                kind="partial_clone", path=f"{folder}/{name}",
                detail="a clone that was not finished",
            )  # fmt: skip
            if prune:
                await remove_partial(git, folder, repo_id)
                orphan.removed = True
            found.items.append(orphan)


async def _prune_folder(git: Git, each: Listed, orphan: Orphan) -> None:
    try:
        await git("worktree", "remove", "--", each.path)
        orphan.removed = True
    except AgorError as error:
        orphan.kept = error.message


async def _entries(git: Git, folder: str) -> tuple[list[str], str]:
    """List what is in a folder of ours, if there is one; and say where that really is."""
    script = 'cd -- "$1" 2>/dev/null || exit 0; pwd -P; find . -mindepth 1 -maxdepth 1 -print0'
    ran = await git.at("/").shell(["sh", "-c", script, "sh", folder])
    real, _, rest = ran.stdout.decode(errors="backslashreplace").partition("\n")
    names = [name.removeprefix("./") for name in rest.split("\0") if name]
    return names, real or folder
