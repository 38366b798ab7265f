"""Session tokens, as they are stored: hashes only."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Statement, Store
from agor.daemon.store.rows import TokenRow

_INSERT = mapping.insert("tokens", TokenRow, "token_hash")
_SELECT = f"SELECT {mapping.columns(TokenRow)} FROM tokens"  # noqa: S608 - names of ours

_read = mapping.reader(TokenRow)


def insert(row: TokenRow) -> Statement:
    """Add a token."""
    return Statement(_INSERT, mapping.values(row))


def revoke(token_hash: bytes, at: int) -> Statement:
    """End a token; the first time it was ended stays."""
    return Statement(
        "UPDATE tokens SET revoked_at = ? WHERE token_hash = ? AND revoked_at IS NULL",
        (at, token_hash),
    )


def used(token_hash: bytes, uses: int) -> Statement:
    """Store how often a token was used."""
    return Statement("UPDATE tokens SET uses = ? WHERE token_hash = ?", (uses, token_hash))


def purge(before_ms: int) -> Statement:
    """Forget tokens that were revoked before this time."""
    return Statement("DELETE FROM tokens WHERE revoked_at < ?", (before_ms,))


async def get(store: Store, token_hash: bytes) -> TokenRow | None:
    """Find a token."""
    found = await store.read(f"{_SELECT} WHERE token_hash = ?", (token_hash,))
    return _read(found[0]) if found else None


async def of_task(store: Store, task_id: str) -> list[TokenRow]:
    """List the tokens of a task that are not revoked."""
    found = await store.read(
        f"{_SELECT} WHERE task_id = ? AND revoked_at IS NULL ORDER BY created_at", (task_id,)
    )
    return [_read(row) for row in found]
