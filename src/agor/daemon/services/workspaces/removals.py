"""Removing worktrees. What is in no commit is never lost: it is in the way, or it is saved first.

The branch is deleted only if its commits are elsewhere as well; else it stays, with all of them.
"""

from __future__ import annotations

import asyncio

import structlog

from agor.daemon.git import worktrees as on_disk
from agor.daemon.git.command import Git
from agor.daemon.git.repository import Listed, is_kept_by_others
from agor.daemon.git.saving import keep_commit, save
from agor.daemon.git.spare_index import hidden_changes
from agor.daemon.git.state import Changes, changes_in
from agor.daemon.git.submodules import has_submodules, work_in_submodules, work_of_gone
from agor.daemon.services.audit.records import record
from agor.daemon.services.executors import Executors
from agor.daemon.services.live import LiveSessions, Turn, outlast
from agor.daemon.services.principal import Principal
from agor.daemon.services.terminals.registry import OpenTerminals
from agor.daemon.services.workspaces.git_turns import GitTurns
from agor.daemon.services.workspaces.identities import Identities
from agor.daemon.services.workspaces.reach import Reach
from agor.daemon.services.workspaces.worktree_looks import find_folder
from agor.daemon.services.workspaces.worktrees import Worktrees
from agor.daemon.store import worktrees
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import WorktreeRow
from agor.errors import Conflict, GitFailed, NotFound
from agor.protocol.validation import quoted
from agor.protocol.workspaces import WorktreeRemoved

log = structlog.get_logger("agor.workspaces")

_MOST_SESSIONS = 1000
_MOST_NAMED = 5


class Removals:
    """Removes worktrees."""

    def __init__(
        self,
        store: Store,
        identities: Identities,
        reach: Reach,
        turns: GitTurns,
        worktree_service: Worktrees,
        lives: LiveSessions,
        executors: Executors,
        terminals: OpenTerminals,
    ) -> None:
        self._store = store
        self._identities = identities
        self._reach = reach
        self._turns = turns
        self._worktrees = worktree_service
        self._lives = lives
        self._executors = executors
        self._terminals = terminals
        #: Worktrees for which nothing is taken any more. What was taken before is seen by `_empty`.
        self._leaving: set[str] = set()

    def refuse_if_leaving(self, worktree_id: str | None) -> None:
        """Raise `Conflict` if a session's worktree is being removed."""
        if worktree_id in self._leaving:
            raise Conflict("the worktree of this session is being removed")

    async def remove(self, who: Principal, worktree_id: str, *, discard: bool) -> WorktreeRemoved:
        """Remove a worktree. With `discard`, what is in no commit is saved under a hidden ref."""
        row = await self._worktrees.row_for(who, worktree_id, "worktree.remove")
        repo = await self._worktrees.repo_of(row)
        async with self._turns.changing(repo.path):
            # Again: whoever had their turn before us may have removed it.
            row = await self._worktrees.row_for(who, worktree_id, "worktree.remove")
            self._leaving.add(worktree_id)
            try:
                await self._empty(worktree_id)
                git = self._identities.git(row.user_id, repo.path)
                return await self._remove(who, git, row, discard=discard)
            finally:
                self._leaving.discard(worktree_id)

    async def remove_here(
        self, who: Principal | None, git: Git, row: WorktreeRow
    ) -> WorktreeRemoved:
        """Remove a worktree, for somebody who has the turn at its repository, or at a start."""
        return await self._remove(who, git, row, discard=False)

    async def losses(self, git: Git, listed: Listed) -> list[str]:
        """Say what a worktree has and nothing else; raises `Conflict` for what cannot be saved."""
        if listed.prunable:
            _refuse(await work_of_gone(git, listed.path))
            only_here = listed.branch is None and await _only_here(git, listed.head)
            return [_on_no_branch(listed.head)] if only_here else []
        inside = git.at(listed.path)
        return await self._losses(inside, await changes_in(inside))

    async def _empty(self, worktree_id: str) -> None:
        """See to it that nobody works there, and that nothing of a session runs on."""
        for session_id in await worktrees.sessions_in(self._store, worktree_id, _MOST_SESSIONS):
            try:
                session = await self._lives.get(session_id)
                async with Turn(session) as live:
                    if live.current is not None or live.queue:
                        raise Conflict(
                            f"the session {session_id} has work to do there",
                            hint="Stop its tasks first.",
                        )
                    self._terminals.refuse_if_any(session_id)
            except NotFound:
                continue
            await self._executors.stop(session_id, "its worktree is removed")

    async def _remove(
        self, who: Principal | None, git: Git, row: WorktreeRow, *, discard: bool
    ) -> WorktreeRemoved:
        folder, detail, listed = await find_folder(git, row)
        if folder in ("locked", "moved", "unreadable"):
            raise Conflict(
                f"the worktree {quoted(row.name)} cannot be removed: {detail}",
                hint=_WHAT_TO_DO[folder].format(path=row.path),
            )
        inside = git.at(row.path)
        changes = await changes_in(inside) if folder == "there" else Changes()
        if changes.cut:
            raise Conflict(
                f"{quoted(row.path)} has too many changes to be looked at in time",
                hint="Commit or clean up there first.",
            )
        if folder == "gone":
            _refuse(await work_of_gone(git, row.path))
        lost = [] if folder == "gone" else await self._losses(inside, changes)
        if lost and not discard:
            raise Conflict(
                f"the worktree {quoted(row.name)} has work in it that is nowhere else: "
                + "; ".join(lost),
                hint="Commit it, or remove the worktree with discard=true: then it is saved as a "
                "commit under a hidden ref, which the answer names.",
            )
        # From here on it is carried through, whoever asked goes away or not.
        carried = asyncio.ensure_future(
            self._carry_out(
                who, git, row, listed, changes, is_there=folder == "there", is_lost=bool(lost)
            )
        )
        await outlast(carried)
        return carried.result()

    async def _losses(self, inside: Git, changes: Changes) -> list[str]:
        """Say what is in a worktree and nowhere else; what cannot even be saved is refused here."""
        lost = []
        if changes.changed or changes.untracked:
            named = ", ".join(path for _, path in changes.named[:_MOST_NAMED])
            more = ", …" if changes.changed + changes.untracked > _MOST_NAMED else ""
            lost.append(
                f"{changes.changed} changed and {changes.untracked} new files ({named}{more})"
            )
        hidden = await hidden_changes(inside)
        if hidden:
            more = ", …" if len(hidden) > _MOST_NAMED else ""
            lost.append(
                f"{len(hidden)} changed files that git was told not to look at "
                f"({', '.join(hidden[:_MOST_NAMED])}{more})"
            )
        _refuse(await work_in_submodules(inside))
        if changes.branch is None and await _only_here(inside, changes.head):
            lost.append(_on_no_branch(changes.head))
        return lost

    async def _carry_out(
        self,
        who: Principal | None,
        git: Git,
        row: WorktreeRow,
        listed: Listed | None,
        changes: Changes,
        *,
        is_there: bool,
        is_lost: bool,
    ) -> WorktreeRemoved:
        await self._store.commit(Write([worktrees.set_status(row.worktree_id, "removing")]))
        try:
            saved = await self._save(git, row, listed, is_lost=is_lost)
            if listed is not None:
                # Without force git looks again itself; submodules it refuses, changed or not.
                force = bool(saved) or (is_there and await has_submodules(git.at(row.path)))
                await on_disk.remove(git, row.path, force=force)
        except BaseException:
            await self._store.commit(Write([worktrees.set_status(row.worktree_id, "ready")]))
            raise
        self._reach.forget(row.path)
        kept = await _drop_branch(git, row)
        ref, commit = saved or (None, None)
        told = record(
            "worktree.removed", who, subject=row.worktree_id, path=row.path, branch=row.branch,
            branch_kept=kept, saved_ref=ref, saved_commit=commit,
        )  # fmt: skip
        await self._store.commit(Write([worktrees.delete(row.worktree_id)], records=[told]))
        return WorktreeRemoved(
            worktree_id=row.worktree_id,
            path=row.path,
            branch=row.branch,
            branch_kept=kept,
            saved_ref=ref,
            saved_commit=commit,
            ignored=changes.ignored,
        )

    async def _save(
        self, git: Git, row: WorktreeRow, listed: Listed | None, *, is_lost: bool
    ) -> tuple[str, str] | None:
        if is_lost:
            return await save(git.at(row.path), row.worktree_id, row.name)
        # The folder is gone, and HEAD was on no branch: its commits are still there, for a while.
        if listed is None or listed.branch is not None or not await _only_here(git, listed.head):
            return None
        assert listed.head is not None
        return await keep_commit(git, row.worktree_id, listed.head), listed.head


def _refuse(modules: list[str]) -> None:
    if modules:
        raise Conflict(
            f"submodules have work in them that cannot be saved: {', '.join(modules)}",
            hint="Commit and push it there first. Of a worktree whose folder is gone, git has them "
            "in worktrees/NAME/modules of its own files.",
        )


def _on_no_branch(head: str | None) -> str:
    return f"commits that no branch has (HEAD is at {head})"


async def _only_here(git: Git, commit: str | None) -> bool:
    """Tell whether a commit that was checked out is in no branch."""
    return commit is not None and await is_kept_by_others(git, commit, besides=None) is None


async def _drop_branch(git: Git, row: WorktreeRow) -> str | None:
    try:
        return await on_disk.drop_branch_if_safe(git, row.branch)
    except GitFailed as error:
        return error.message


_WHAT_TO_DO = {
    "locked": "If it may go: git worktree unlock {path}",
    "moved": "Move it back with git worktree move, or forget it: agor worktree prune",
    "unreadable": "Look at it yourself: {path}",
}
