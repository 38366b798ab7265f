"""Credentials: people keep their API keys here, and the team's. Values only ever go in.

No message here repeats a value, nor anything else of a request that may be one by mistake.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec

from agor.daemon.services import access
from agor.daemon.services.audit.records import record
from agor.daemon.services.credentials import agent_keys
from agor.daemon.services.credentials.vault import Vault
from agor.daemon.services.people.people import People
from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import new_id, now
from agor.daemon.store import credentials
from agor.daemon.store.base import Store, Write
from agor.daemon.store.credentials import TEAM
from agor.daemon.store.rows import CredentialRow
from agor.errors import Conflict, NotFound, Unprocessable
from agor.protocol.api import Page
from agor.protocol.credentials import LONGEST_VALUE, Credential, NewCredential
from agor.protocol.validation import quoted

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
#: How many credentials one person may have, and the team.
MOST = 200
#: Values shorter than this would be given away by their last four characters.
_SHORT = 12
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Credentials:
    """What people keep."""

    def __init__(self, store: Store, vault: Vault, people: People) -> None:
        self._store = store
        self._vault = vault
        self._people = people

    async def page(self, who: Principal) -> Page[Credential]:
        """List somebody's own, and the team's."""
        rows = await credentials.visible_to(self._store, who.user_id)
        return Page(items=[self._show(row) for row in rows])

    async def put(
        self, who: Principal, name: str, new: NewCredential, *, team: bool, dry_run: bool = False
    ) -> Credential:
        """Keep a key under a name, in the place of what was there; with `dry_run`, only check."""
        owner = self._owner(who, team)
        if not NAME.fullmatch(name):
            raise Unprocessable(
                "name: this is no name of a credential",
                hint="Letters, digits and _, at most 128, and no digit first: ANTHROPIC_API_KEY.",
            )
        _check_value(new.value)
        row = _row(who, owner, name, new)
        await self._vault.ready()
        names = await credentials.names_of(self._store, owner)
        if name not in names and len(names) >= MOST:
            raise Conflict(
                f"there are {len(names)} credentials already", hint="Delete one that is not needed."
            )
        if dry_run:
            return self._show(row)
        # Sealed and handed in at once, so that a rotation knows of it.
        row = self._vault.seal(row, new.value)
        told = record(
            "credential.set", who, subject=name, team=team, last_four=row.last_four,
            base_url=row.base_url, agents=new.agents, key_version=row.key_version,
        )  # fmt: skip
        await self._store.commit(Write([credentials.put(row)], records=[told]))
        return self._show(await credentials.get(self._store, owner, name) or row)

    async def delete(self, who: Principal, name: str, *, team: bool) -> None:
        """Keep a key no more. It needs no master key: what cannot be opened can be deleted."""
        row = await credentials.get(self._store, self._owner(who, team), name)
        if row is None:
            whose = "the team has" if team else "you have"
            raise NotFound(f"{whose} no credential {quoted(name)}")
        told = record("credential.deleted", who, subject=name, team=team, last_four=row.last_four)
        await self._store.commit(Write([credentials.remove(row.credential_id)], records=[told]))

    def _owner(self, who: Principal, team: bool) -> str:
        """Tell whose it is that somebody wants to change, if they may."""
        action: access.Action = "credential.keep_team" if team else "credential.keep"
        if not access.may(who, action):
            raise access.forbidden(who, action)
        return TEAM if team else who.user_id

    def _show(self, row: CredentialRow) -> Credential:
        try:
            set_by = self._people.get(row.set_by).name
        except NotFound:
            set_by = None
        return Credential(
            name=row.name,
            whose="team" if row.user_id == TEAM else "own",
            set_by=set_by,
            last_four=row.last_four,
            base_url=row.base_url,
            agents=agents_of(row),
            created_at=row.created_at,
            updated_at=row.updated_at,
            last_used_at=row.last_used_at,
        )


def agents_of(row: CredentialRow) -> list[str] | None:
    """Tell which agents a credential is for; None if its name alone says that."""
    return None if row.agents is None else msgspec.json.decode(row.agents, type=list[str])


def _row(who: Principal, owner: str, name: str, new: NewCredential) -> CredentialRow:
    """Make the row, all but what is sealed. Each has an id of its own, also under an old name."""
    if new.base_url is not None:
        _check_url(new.base_url)
    if new.agents is not None:
        _check_agents(name, new.agents)
    at = now()
    return CredentialRow(
        credential_id=new_id(),
        user_id=owner,
        name=name,
        base_url=new.base_url,
        last_four=new.value[-4:] if len(new.value) >= _SHORT else "",
        set_by=who.user_id,
        key_version=0,
        created_at=at,
        updated_at=at,
        last_used_at=None,
        agents=None if new.agents is None else msgspec.json.encode(sorted(set(new.agents))),
        sealed=b"",
    )


def _check_value(value: str) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise Unprocessable("value: this is no text") from None
    if not value or size > LONGEST_VALUE:
        raise Unprocessable(f"value: expected 1 to {LONGEST_VALUE} bytes")
    if value != value.strip():
        raise Unprocessable("value: there is white space before or behind it")
    if _CONTROL.search(value):
        raise Unprocessable("value: there is a line break or another control character in it")


def _check_url(url: str) -> None:
    """Take only what can hold no secret, since it is shown."""
    try:
        parts = urlsplit(url)
        _ = parts.port
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable or not url.isascii() or not url.isprintable() or " " in url:
        raise Unprocessable(
            "base_url: this is no http or https URL", hint="For example: https://llm.example.com/v1"
        )
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise Unprocessable(
            "base_url: it must have no user, no query and no fragment",
            hint="It is shown to people; what is secret belongs into the value.",
        )


def _check_agents(name: str, agents: list[str]) -> None:
    for number, agent in enumerate(agents):
        if not agent_keys.is_known(agent):
            raise Unprocessable(
                f"agents[{number}]: there is no such agent",
                hint=f"There are: {', '.join(agent_keys.NEEDS)}, and acp:NAME.",
            )
        if not agent_keys.needs(agent, name):
            raise Unprocessable(
                f"agents[{number}]: {agent} never gets a key of this name",
                hint=f"It gets: {agent_keys.needed_by(agent)}.",
            )
