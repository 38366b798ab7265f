"""Worktrees, as people use them: made, listed, looked at.

A worktree is written down as `making` before anything is made, and as `ready` once all of it is
there. So whatever a crash leaves behind is known of.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from agor.daemon.git import worktrees as on_disk
from agor.daemon.git.command import Git
from agor.daemon.git.differences import difference
from agor.daemon.git.names import check_branch, check_name, check_revision
from agor.daemon.git.repository import base_of
from agor.daemon.services import access, views
from agor.daemon.services.access import Action
from agor.daemon.services.audit.records import record
from agor.daemon.services.live import LiveSessions, outlast
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.stamps import new_id, time_of
from agor.daemon.services.workspaces.git_turns import GitTurns
from agor.daemon.services.workspaces.identities import Identities
from agor.daemon.services.workspaces.repos import Repos
from agor.daemon.services.workspaces.worktree_looks import look_at, show, show_diff
from agor.daemon.store import repos, worktrees
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import RepoRow, WorktreeRow
from agor.errors import AgorError, Conflict, NotFound
from agor.protocol.api import Page
from agor.protocol.validation import quoted
from agor.protocol.workspaces import Diff, NewWorktree, Worktree, WorktreeDetails

log = structlog.get_logger("agor.workspaces")

#: Sessions of a worktree that are named.
_MOST_SESSIONS = 100


class Worktrees:
    """The worktrees of everybody."""

    def __init__(
        self,
        store: Store,
        identities: Identities,
        turns: GitTurns,
        repo_service: Repos,
        lives: LiveSessions,
    ) -> None:
        self._store = store
        self._identities = identities
        self._turns = turns
        self._repos = repo_service
        self._lives = lives

    # ── to make one ──────────────────────────────────────────────────────────────────────────

    async def make(
        self, who: Principal, repo_id: str, new: NewWorktree, receipt: Receipt | None = None
    ) -> Worktree:
        """Make a worktree of a repository, on a branch of its own."""
        worktree_id = new_id()
        # The end of an id is random; people have to read and type this.
        name = f"w-{worktree_id[-8:]}" if new.name is None else check_name("name", new.name)
        branch = f"agor/{name}" if new.branch is None else check_branch(new.branch)
        base = None if new.base is None else check_revision("base", new.base)
        repo = await self._repos.row_for(who, repo_id, "worktree.make")
        if repo.status != "ready":
            raise Conflict(
                f"the repository {quoted(repo.name)} is not there: it is {repo.status}",
                hint="GET /repos/{repo_id} says more.",
            )
        async with self._turns.changing(repo.path):
            git = self._identities.git(repo.user_id, repo.path)
            row = await self._plan(git, repo, worktree_id, name, branch, base)
            await self._store.commit(Write([worktrees.insert(row)]))
            try:
                await on_disk.add(git, row.path, row.branch, row.base_commit)
                return await self._written(who, row, receipt)
            except BaseException:
                await outlast(asyncio.ensure_future(self._undo(git, row)))
                raise

    async def _plan(
        self,
        git: Git,
        repo: RepoRow,
        worktree_id: str,
        name: str,
        branch: str,
        base: str | None,
    ) -> WorktreeRow:
        if await worktrees.named(self._store, repo.repo_id, name) is not None:
            raise Conflict(
                f"the repository {quoted(repo.name)} has a worktree {quoted(name)} already",
                hint="Give another name.",
            )
        await on_disk.refuse_taken_branch(git, branch)
        base_name, commit = await base_of(git, base)
        root = self._identities.folder(git.identity, "worktrees")
        parent = await on_disk.make_parent(git, f"{root}/{repo.name}")
        return WorktreeRow(
            worktree_id=worktree_id,
            repo_id=repo.repo_id,
            user_id=repo.user_id,
            name=name,
            path=f"{parent}/{name}",
            branch=branch,
            base=base_name,
            base_commit=commit,
            status="making",
            created_at=time_of(worktree_id),
        )

    async def _written(self, who: Principal, row: WorktreeRow, receipt: Receipt | None) -> Worktree:
        shown = show(msgspec.structs.replace(row, status="ready"))
        kept = [] if receipt is None else [receipt.statement(201, shown)]
        told = record(
            "worktree.made", who, subject=row.worktree_id, path=row.path, branch=row.branch,
            unix_user=self._identities.of(row.user_id).name,
        )  # fmt: skip
        ready = worktrees.set_status(row.worktree_id, "ready")
        await self._store.commit(Write([ready, *kept], records=[told]))
        return shown

    async def _undo(self, git: Git, row: WorktreeRow) -> None:
        """Take back what is there of it; what cannot be is left for the next start."""
        try:
            await self.undo(git, row)
        except AgorError as error:
            log.warning("worktree_half_made", worktree=row.worktree_id, why=error.message)

    async def undo(self, git: Git, row: WorktreeRow) -> None:
        """Remove a worktree that nobody was told of, and forget it. If it is in use, it is kept."""
        gone = await on_disk.undo_add(git, row.path, row.branch, row.base_commit)
        settled = (
            worktrees.delete(row.worktree_id)
            if gone
            else worktrees.set_status(row.worktree_id, "ready")
        )
        await self._store.commit(Write([settled]))

    # ── to look at them ──────────────────────────────────────────────────────────────────────

    async def page(
        self, who: Principal, repo_id: str | None, cursor: str | None, limit: int
    ) -> Page[Worktree]:
        """List worktrees, the newest first."""
        whose = None if access.may(who, "worktree.view", "none") else who.user_id
        if repo_id is not None:
            await self._repos.row_for(who, repo_id, "repo.view")
        rows = await worktrees.page(
            self._store, whose, repo_id, views.read_cursor(cursor), limit + 1
        )
        return views.page(rows, limit, show, lambda row: (row.created_at, row.worktree_id))

    async def row_for(self, who: Principal, worktree_id: str, action: Action) -> WorktreeRow:
        """Find a worktree that this person may do something to or with."""
        row = await worktrees.get(self._store, worktree_id)
        if row is not None:
            tie = access.tie_to(who, row.user_id, {})
            if access.may(who, action, tie):
                return row
            if access.may(who, "worktree.view", tie):
                raise access.forbidden(who, action)
        raise NotFound(f"there is no worktree {quoted(worktree_id)}")

    async def repo_of(self, row: WorktreeRow) -> RepoRow:
        """Find the repository of a worktree."""
        repo = await repos.get(self._store, row.repo_id)
        if repo is None:
            raise NotFound(f"there is no repository {quoted(row.repo_id)}")
        return repo

    async def get(self, who: Principal, worktree_id: str) -> WorktreeDetails:
        """Show a worktree, and how it stands."""
        row = await self.row_for(who, worktree_id, "worktree.view")
        repo = await self.repo_of(row)
        async with self._turns.looking():
            state = await look_at(self._identities.git(row.user_id, repo.path), row)
        in_it = await worktrees.sessions_in(self._store, worktree_id, _MOST_SESSIONS)
        members = msgspec.structs.asdict(show(row))
        return WorktreeDetails(**members, session_ids=in_it, state=state)

    async def diff(self, who: Principal, worktree_id: str, most_bytes: int) -> Diff:
        """Show what was done in a worktree."""
        return await self._diff(await self.row_for(who, worktree_id, "worktree.view"), most_bytes)

    async def diff_of_session(self, who: Principal, session_id: str, most_bytes: int) -> Diff:
        """Show what was done in a session."""
        session = (await self._lives.get_for(who, session_id, "session.view")).row
        if session.worktree_id is None:
            raise Conflict(
                "this session works in a plain folder, so nobody knows what was there before",
                hint="Begin sessions with a repo_id: each then has a worktree, and a difference.",
            )
        row = await worktrees.get(self._store, session.worktree_id)
        if row is None:
            raise Conflict("the worktree of this session was removed")
        return await self._diff(row, most_bytes)

    async def _diff(self, row: WorktreeRow, most_bytes: int) -> Diff:
        async with self._turns.looking():
            git = self._identities.git(row.user_id, row.path)
            there = await git.at("/").shell(["test", "-d", row.path])
            if there.exit_code != 0:
                raise Conflict(
                    f"the folder {quoted(row.path)} of this worktree is gone",
                    hint="`agor worktree status` says more; what was committed is in its branch.",
                )
            found = await difference(git, row.base_commit, most_bytes)
        # Text of a million characters takes a while to make.
        return await asyncio.to_thread(show_diff, row, found)
