"""Repositories, as people use them: registered where they are, or cloned."""

from __future__ import annotations

import msgspec

from agor.daemon.git.addresses import read_address
from agor.daemon.git.names import check_name, name_from
from agor.daemon.git.repository import top_level
from agor.daemon.services import access, views
from agor.daemon.services.access import Action
from agor.daemon.services.audit.records import record
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.stamps import new_id, time_of
from agor.daemon.services.workspaces.clones import Clones
from agor.daemon.services.workspaces.git_turns import GitTurns
from agor.daemon.services.workspaces.identities import Identities
from agor.daemon.services.workspaces.reach import Reach
from agor.daemon.store import repos, worktrees
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import RepoRow
from agor.errors import Conflict, NotFound, Unprocessable
from agor.protocol.api import Page
from agor.protocol.events import Problem
from agor.protocol.validation import quoted
from agor.protocol.workspaces import NewRepo, Repo


class Repos:
    """The repositories of everybody."""

    def __init__(
        self, store: Store, identities: Identities, reach: Reach, turns: GitTurns, clones: Clones
    ) -> None:
        self._store = store
        self._identities = identities
        self._reach = reach
        self._turns = turns
        self._clones = clones

    async def add(self, who: Principal, new: NewRepo, receipt: Receipt | None = None) -> Repo:
        """Register a repository that is there, or begin to clone one."""
        if (new.path is None) == (new.url is None):
            raise Unprocessable(
                "body: give either path (a repository that is there) or url (one to clone)"
            )
        if new.path is not None:
            return await self._register(who, new.path, new.name, receipt)
        assert new.url is not None
        return await self._clone(who, new.url, new.name, receipt)

    async def _register(
        self, who: Principal, path: str, name: str | None, receipt: Receipt | None
    ) -> Repo:
        if not path.startswith("/"):
            raise Unprocessable(
                f"path: {quoted(path)} is not an absolute path",
                hint="The daemon has no folder of its own to begin from.",
            )
        identity = self._identities.of(who.user_id)
        await self._reach.check(identity, path)
        async with self._turns.changing(f"repos of {who.user_id}"):
            top = await top_level(self._identities.git(who.user_id, path))
            known = await repos.at(self._store, who.user_id, top)
            if known is not None:
                raise Conflict(
                    f"{quoted(top)} is registered already, as {quoted(known.name)}",
                    hint=f"Its id is {known.repo_id}.",
                )
            repo_id = new_id()
            row = RepoRow(
                repo_id=repo_id,
                user_id=who.user_id,
                name=await self._free_name(who, name, top),
                path=top,
                url=None,
                status="ready",
                created_at=time_of(repo_id),
            )
            return await self._insert(who, row, 201, receipt)

    async def _clone(
        self, who: Principal, url: str, name: str | None, receipt: Receipt | None
    ) -> Repo:
        address = read_address(url)
        identity = self._identities.of(who.user_id)
        self._clones.refuse_if_crowded()
        async with self._turns.changing(f"repos of {who.user_id}"):
            free = await self._free_name(who, name, url)
            repo_id = new_id()
            row = RepoRow(
                repo_id=repo_id,
                user_id=who.user_id,
                name=free,
                path=f"{self._identities.folder(identity, 'repos')}/{free}",
                url=url,
                status="cloning",
                created_at=time_of(repo_id),
            )
            shown = await self._insert(who, row, 202, receipt)
        self._clones.begin(row, address)
        return shown

    async def _insert(
        self, who: Principal, row: RepoRow, status: int, receipt: Receipt | None
    ) -> Repo:
        shown = show(row)
        kept = [] if receipt is None else [receipt.statement(status, shown)]
        told = record("repo.registered", who, subject=row.repo_id, path=row.path, url=row.url)
        await self._store.commit(Write([repos.insert(row), *kept], records=[told]))
        return shown

    async def _free_name(self, who: Principal, name: str | None, source: str) -> str:
        """Take the name that was given, or make one that is free."""
        if name is not None:
            check_name("name", name)
            if await repos.named(self._store, who.user_id, name) is not None:
                raise Conflict(
                    f"you have a repository {quoted(name)} already", hint="Give another name."
                )
            return name
        wanted = free = name_from(source)
        number = 1
        while await repos.named(self._store, who.user_id, free) is not None:
            number += 1
            free = f"{wanted}-{number}"
        return free

    async def page(self, who: Principal, cursor: str | None, limit: int) -> Page[Repo]:
        """List repositories, the newest first."""
        whose = None if access.may(who, "repo.view", "none") else who.user_id
        rows = await repos.page(self._store, whose, views.read_cursor(cursor), limit + 1)
        return views.page(rows, limit, show, lambda row: (row.created_at, row.repo_id))

    async def get(self, who: Principal, repo_id: str) -> Repo:
        """Show a repository."""
        return show(await self.row_for(who, repo_id, "repo.view"))

    async def row_for(self, who: Principal, repo_id: str, action: Action) -> RepoRow:
        """Find a repository that this person may do something to or with."""
        row = await repos.get(self._store, repo_id)
        if row is not None:
            tie = access.tie_to(who, row.user_id, {})
            if access.may(who, action, tie):
                return row
            if access.may(who, "repo.view", tie):
                raise access.forbidden(who, action)
        raise NotFound(f"there is no repository {quoted(repo_id)}")

    async def remove(self, who: Principal, repo_id: str) -> None:
        """Forget a repository, or call its clone off. The folder of one that is whole stays."""
        row = await self.row_for(who, repo_id, "repo.remove")
        await self._clones.call_off(repo_id)
        async with self._turns.changing(row.path):
            left = await worktrees.page(self._store, None, repo_id, None, 3)
            if left:
                names = ", ".join(each.name for each in left)
                raise Conflict(
                    f"the repository {quoted(row.name)} has worktrees: {names}",
                    hint="Remove those first: agor worktree remove NAME",
                )
            told = record("repo.removed", who, subject=repo_id, path=row.path)
            await self._store.commit(Write([repos.delete(repo_id)], records=[told]))


def show(row: RepoRow) -> Repo:
    """Show a repository."""
    return Repo(
        repo_id=row.repo_id,
        name=row.name,
        path=row.path,
        url=row.url,
        status=row.status,
        problem=None if row.problem is None else msgspec.json.decode(row.problem, type=Problem),
        user_id=row.user_id,
        created_at=row.created_at,
    )
