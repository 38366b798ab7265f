"""People at one daemon, their keys, and executors that ask for them in a test's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agor.daemon.services.people.people import principal
from agor.daemon.services.principal import Principal
from agor.daemon.store import connect, users
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import AuditRecord, UserRow
from agor.home import Home
from agor.protocol.api import NewSession
from agor.protocol.credentials import Credential, NewCredential
from agor.protocol.methods import (
    GET_API_KEY,
    ExecutePromptParams,
    GetApiKeyParams,
    GetApiKeyResult,
)
from tests.integration.daemon.asker import Asker
from tests.integration.daemon.hostile import Hostile
from tests.integration.daemon.in_process import Desk, soon

ANN = UserRow(user_id="ann", name="Ann", role="owner", unix_username=None, created_at=1)
BOB = UserRow(user_id="bob", name="Bob", role="member", unix_username=None, created_at=2)
EVE = UserRow(user_id="eve", name="Eve", role="viewer", unix_username=None, created_at=3)


async def invite(folder: Path, *rows: UserRow, url: str | None = None) -> None:
    """Have these people on a daemon that is opened later."""
    home = Home(folder / "home")
    home.prepare()
    store = connect(url or f"sqlite:///{home.folder}/agor.db")
    await store.open()
    await store.commit(Write([users.insert(row) for row in rows]))
    await store.close()


class Records:
    """Keeps every record that goes into the audit log of a store, once it is committed."""

    def __init__(self, store: Store) -> None:
        self._commit = store.commit
        self.kept: list[AuditRecord] = []
        store.commit = self._note  # type: ignore[method-assign]

    async def _note(self, write: Write) -> None:
        await self._commit(write)
        self.kept += write.records

    def of(self, action: str) -> list[dict[str, Any]]:
        """What the records of an action say, the newest last."""
        return [
            {
                "who": each.actor_id, "session": each.session_id, "subject": each.subject,
                "result": each.result, **json.loads(each.detail),
            }
            for each in self.kept
            if each.action == action
        ]  # fmt: skip


class KeyDesk:
    """Somebody who keeps keys, and whose executors ask for them."""

    def __init__(self, desk: Desk, asker: Asker, row: UserRow | None = None) -> None:
        self.daemon = desk.daemon
        self.who: Principal = desk.who if row is None else principal(row)
        self._workspace = desk.workspace
        self._asker = asker

    async def keep(
        self, name: str, value: str = "sk-0123456789-LAST", *, team: bool = False, **more: Any
    ) -> Credential:
        new = NewCredential(value=value, **more)
        return await soon(self.daemon.credentials.put(self.who, name, new, team=team))

    async def delete(self, name: str, *, team: bool = False) -> None:
        await soon(self.daemon.credentials.delete(self.who, name, team=team))

    async def kept(self) -> list[Credential]:
        return (await soon(self.daemon.credentials.page(self.who))).items

    async def task(
        self, agent: str = "scripted", **more: Any
    ) -> tuple[Hostile, ExecutePromptParams]:
        """Give a task to the executor of a new session of theirs."""
        desk = Desk(self.daemon, self.who, self._workspace)
        new = NewSession(agentic_tool=agent, workspace=str(self._workspace), **more)
        session = await soon(self.daemon.sessions.create(self.who, new))
        await desk.prompt(session.session_id, "x")
        return await self._asker.next()

    async def ask(self, name: str, agent: str = "scripted") -> GetApiKeyResult:
        """Have a new task ask for a key."""
        return await ask(*await self.task(agent), name)


async def ask(
    executor: Hostile, params: ExecutePromptParams, name: str, *or_else: str
) -> GetApiKeyResult:
    """Have a task ask for a key, or for others that would do as well."""
    asked = GetApiKeyParams(
        session_token=params.session_token, credential_key=name, or_else=list(or_else)
    )
    return await soon(executor.peer.call(GET_API_KEY, asked))
