"""Browsers that people have signed in with, as they are stored: hashes only."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Statement, Store
from agor.daemon.store.rows import SignInRow

_INSERT = mapping.insert("sign_ins", SignInRow, "sign_in_id")
_SELECT = f"SELECT {mapping.columns(SignInRow)} FROM sign_ins"  # noqa: S608 - names of ours

_read = mapping.reader(SignInRow)


def insert(row: SignInRow) -> Statement:
    """Add a sign-in."""
    return Statement(_INSERT, mapping.values(row))


def remove(sign_in_id: str) -> Statement:
    """End a sign-in."""
    return Statement("DELETE FROM sign_ins WHERE sign_in_id = ?", (sign_in_id,))


def purge(before_ms: int) -> Statement:
    """Forget what has expired before this time."""
    return Statement("DELETE FROM sign_ins WHERE expires_at < ?", (before_ms,))


async def live(store: Store, at: int) -> list[SignInRow]:
    """List the sign-ins of everybody that are good at this time, the oldest first."""
    found = await store.read(
        f"{_SELECT} WHERE expires_at > ? ORDER BY created_at, sign_in_id", (at,)
    )
    return [_read(row) for row in found]
