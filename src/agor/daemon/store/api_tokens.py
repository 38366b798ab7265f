"""Tokens of people's programs, as they are stored: hashes only."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Statement, Store
from agor.daemon.store.rows import ApiTokenRow

_INSERT = mapping.insert("api_tokens", ApiTokenRow, "token_id")
_SELECT = f"SELECT {mapping.columns(ApiTokenRow)} FROM api_tokens"  # noqa: S608 - names of ours

_read = mapping.reader(ApiTokenRow)


def insert(row: ApiTokenRow) -> Statement:
    """Add a token."""
    return Statement(_INSERT, mapping.values(row))


def revoke(token_id: str, at: int) -> Statement:
    """End a token; the first time it was ended stays."""
    return Statement(
        "UPDATE api_tokens SET revoked_at = ? WHERE token_id = ? AND revoked_at IS NULL",
        (at, token_id),
    )


def used(token_id: str, at: int) -> Statement:
    """Store when a token was used last."""
    return Statement("UPDATE api_tokens SET last_used_at = ? WHERE token_id = ?", (at, token_id))


def purge(before_ms: int) -> Statement:
    """Forget tokens that were revoked, or have expired, before this time."""
    return Statement(
        "DELETE FROM api_tokens WHERE revoked_at < ? OR expires_at < ?", (before_ms, before_ms)
    )


async def live(store: Store, at: int) -> list[ApiTokenRow]:
    """List the tokens of everybody that are good at this time, the oldest first."""
    found = await store.read(
        f"{_SELECT} WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"
        " ORDER BY created_at, token_id",
        (at,),
    )
    return [_read(row) for row in found]


async def get(store: Store, token_id: str) -> ApiTokenRow | None:
    """Find a token, ended or not."""
    found = await store.read(f"{_SELECT} WHERE token_id = ?", (token_id,))
    return _read(found[0]) if found else None
