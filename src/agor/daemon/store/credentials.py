"""Credentials, as they are stored: sealed."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Reads, Statement, Store
from agor.daemon.store.rows import CredentialRow

#: Whose a credential is that is the whole team's.
TEAM = ""

_INSERT = mapping.insert("credentials", CredentialRow, "user_id, name").removesuffix("NOTHING")
_REPLACED = ", ".join(
    f"{name} = excluded.{name}"
    for name in CredentialRow.__struct_fields__
    if name not in ("user_id", "name", "created_at")
)
_PUT = f"{_INSERT}UPDATE SET {_REPLACED}"
_SELECT = f"SELECT {mapping.columns(CredentialRow)} FROM credentials"  # noqa: S608 - names of ours

_read = mapping.reader(CredentialRow)


def put(row: CredentialRow) -> Statement:
    """Keep a credential, in the place of that person's other one of this name."""
    return Statement(_PUT, mapping.values(row))


def remove(credential_id: str) -> Statement:
    """Keep a credential no more."""
    return Statement("DELETE FROM credentials WHERE credential_id = ?", (credential_id,))


def used(credential_id: str, at: int) -> Statement:
    """Store when a credential was given to a task."""
    return Statement(
        "UPDATE credentials SET last_used_at = ? WHERE credential_id = ?", (at, credential_id)
    )


def reseal(before: CredentialRow, after: CredentialRow) -> Statement:
    """Seal a credential anew, unless it was replaced or sealed by somebody else meanwhile."""
    return Statement(
        "UPDATE credentials SET sealed = ?, key_version = ? WHERE credential_id = ? AND sealed = ?",
        (after.sealed, after.key_version, before.credential_id, before.sealed),
    )


async def get(store: Store, user_id: str, name: str) -> CredentialRow | None:
    """Find somebody's credential, or the team's."""
    found = await store.read(f"{_SELECT} WHERE user_id = ? AND name = ?", (user_id, name))
    return _read(found[0]) if found else None


async def visible_to(store: Store, user_id: str) -> list[CredentialRow]:
    """List somebody's credentials and the team's, by name; their own come first."""
    found = await store.read(
        f"{_SELECT} WHERE user_id IN (?, ?) ORDER BY name, user_id DESC", (user_id, TEAM)
    )
    return [_read(row) for row in found]


async def names_of(store: Store, user_id: str) -> set[str]:
    """List the names of somebody's credentials."""
    found = await store.read("SELECT name FROM credentials WHERE user_id = ?", (user_id,))
    return {name for (name,) in found}


async def counts(store: Reads) -> dict[int, int]:
    """Count the credentials that are sealed with each version of the master key."""
    found = await store.read("SELECT key_version, COUNT(*) FROM credentials GROUP BY key_version")
    return dict(found)


async def sealed_with(store: Store, version: int, limit: int) -> list[CredentialRow]:
    """List some that are sealed with this version of the master key."""
    found = await store.read(
        f"{_SELECT} WHERE key_version = ? ORDER BY credential_id LIMIT ?", (version, limit)
    )
    return [_read(row) for row in found]


async def not_sealed_with(
    store: Store, version: int, after: str, limit: int
) -> list[CredentialRow]:
    """List those behind this one that are sealed with another version of the master key."""
    found = await store.read(
        f"{_SELECT} WHERE key_version <> ? AND credential_id > ? ORDER BY credential_id LIMIT ?",
        (version, after, limit),
    )
    return [_read(row) for row in found]
