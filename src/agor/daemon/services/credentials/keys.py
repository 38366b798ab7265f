"""Keys for tasks: given to the one agent that needs them, for the person whose session it is.

Every delivery is in the audit log before the key is given, together with the count of the token's
uses; if that cannot be stored, nothing is given. Every refusal is there as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from agor.daemon.services import tool_servers
from agor.daemon.services.audit.records import AuditResult, record
from agor.daemon.services.credentials import agent_keys
from agor.daemon.services.credentials.credentials import NAME, agents_of
from agor.daemon.services.credentials.vault import Vault
from agor.daemon.services.people.people import People, principal
from agor.daemon.services.runs import Runs
from agor.daemon.services.stamps import now
from agor.daemon.services.tokens import Grant, Tokens
from agor.daemon.store import credentials
from agor.daemon.store.base import Store, Write
from agor.daemon.store.credentials import TEAM
from agor.daemon.store.rows import AuditRecord, CredentialRow, UserRow
from agor.errors import (
    AgorError,
    Forbidden,
    HandlerFailed,
    MasterKeyUnusable,
    RpcError,
    StoreError,
    TokenRefused,
    UnknownTask,
)
from agor.protocol.methods import GetApiKeyResult
from agor.protocol.validation import quoted

#: Times that one task may ask. More is no work, and each is a record for ever.
_MOST_QUESTIONS = 1000
#: Times that a row is looked at again which a rotation has just sealed anew.
_LOOKS = 3


class _Asked(NamedTuple):
    """A question for a key: the first name there is a credential of, the person's own before."""

    grant: Grant
    names: Sequence[str]
    agent: str
    #: What the session's tool servers need beside.
    servers_need: set[str]
    owner: UserRow

    @property
    def name(self) -> str:
        """The one that was wanted most."""
        return self.names[0]


class Keys:
    """Gives keys to tasks."""

    def __init__(
        self, store: Store, vault: Vault, tokens: Tokens, runs: Runs, people: People
    ) -> None:
        self._store = store
        self._vault = vault
        self._tokens = tokens
        self._runs = runs
        self._people = people

    async def get(self, grant: Grant, names: Sequence[str]) -> GetApiKeyResult:
        """Give a key to the task that holds this grant, or refuse."""
        run = self._runs.get(grant.row.task_id)
        if run is None:
            raise UnknownTask("this task has ended")
        if grant.asked >= _MOST_QUESTIONS:
            raise TokenRefused(f"this task has asked for keys {grant.asked} times already")
        grant.asked += 1
        owner = self._people.get(grant.row.user_id)
        session = run.live.row
        needed = tool_servers.credentials(session)
        asked = _Asked(grant, names, session.agentic_tool, needed, owner)
        try:
            self._people.check_enabled(owner.user_id)
            _check(asked)
            row, value = await self._open(asked)
            # That may take a while: who was disabled meanwhile, or stopped, gets nothing either.
            self._people.check_enabled(owner.user_id)
            use = self._tokens.use(grant)
        except (RpcError, MasterKeyUnusable, Forbidden) as error:
            await self._store.commit(Write(records=[_refused(asked, error)]))
            raise
        at = now()
        try:
            await self._store.commit(
                Write([use, credentials.used(row.credential_id, at)], records=[_given(asked, row)])
            )
        except StoreError:
            self._tokens.unuse(grant)
            raise
        return GetApiKeyResult(api_key=value, base_url=row.base_url, credential_key=row.name)

    async def _open(self, asked: _Asked) -> tuple[CredentialRow, str]:
        """Find the credential, the person's own or else the team's, and open it."""
        row = await self._find(asked)
        for _ in range(_LOOKS):
            if self._vault.has(row.key_version):
                break
            await self._vault.ready()
            # Meanwhile it may have been deleted; or a rotation has sealed it anew, and let go of
            # the old version.
            row = await self._find(asked)
        return row, self._vault.unseal(row)

    async def _find(self, asked: _Asked) -> CredentialRow:
        row = await self._first(asked)
        if row is None:
            raise HandlerFailed(
                f"there is no such credential: {quoted(asked.name)}",
                hint=f"add one with `agor credential set {asked.name}`",
                code="no_such_credential",
            )
        allowed = agents_of(row)
        if allowed is not None and asked.agent not in allowed:
            raise _not_for(asked, row.name, f"It is kept for {', '.join(allowed)}.")
        return row

    async def _first(self, asked: _Asked) -> CredentialRow | None:
        for whose in (asked.owner.user_id, TEAM):
            for name in asked.names:
                row = await credentials.get(self._store, whose, name)
                if row is not None:
                    return row
        return None


def _check(asked: _Asked) -> None:
    """Refuse what no credential could make right."""
    for name in asked.names:
        if not NAME.fullmatch(name):
            raise HandlerFailed(
                f"{quoted(name)} cannot be the name of a credential",
                hint="Letters, digits and _, at most 128, and no digit first.",
                code="no_such_credential",
            )
        if name not in asked.servers_need and not agent_keys.needs(asked.agent, name):
            raise _not_for(asked, name, f"It gets: {agent_keys.needed_by(asked.agent)}.")


def _not_for(asked: _Asked, name: str, hint: str) -> HandlerFailed:
    return HandlerFailed(
        f"the agent {quoted(asked.agent)} does not get the credential {quoted(name)}",
        hint=hint,
        code="credential_refused",
    )


def _given(asked: _Asked, row: CredentialRow) -> AuditRecord:
    team = row.user_id == TEAM
    return _record(
        "credential.delivered", asked, "ok", row.name, team=team, last_four=row.last_four
    )


def _refused(asked: _Asked, error: AgorError) -> AuditRecord:
    broken = isinstance(error, MasterKeyUnusable)
    return _record(
        "credential.refused", asked, "failed" if broken else "refused", asked.name[:128],
        code=error.code, why=error.message,
    )  # fmt: skip


def _record(
    action: str, asked: _Asked, result: AuditResult, name: str, **detail: Any
) -> AuditRecord:
    row = asked.grant.row
    return record(
        action, principal(asked.owner), session_id=row.session_id, subject=name,
        result=result, task=row.task_id, executor=row.executor_id, agent=asked.agent, **detail,
    )  # fmt: skip
