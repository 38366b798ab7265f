"""Receipts, as they are stored: the answers to requests that may be sent twice."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Statement, Store
from agor.daemon.store.rows import ReceiptRow

_INSERT = mapping.insert("receipts", ReceiptRow, "scope, key")
_SELECT = f"SELECT {mapping.columns(ReceiptRow)} FROM receipts"  # noqa: S608 - names of ours

_read = mapping.reader(ReceiptRow)


def insert(row: ReceiptRow) -> Statement:
    """Keep an answer; the first one stays."""
    return Statement(_INSERT, mapping.values(row))


def purge(before_ms: int) -> Statement:
    """Forget the answers given before a time."""
    return Statement("DELETE FROM receipts WHERE created_at < ?", (before_ms,))


async def get(store: Store, scope: str, key: str) -> ReceiptRow | None:
    """Find the answer to a request."""
    found = await store.read(f"{_SELECT} WHERE scope = ? AND key = ?", (scope, key))
    return _read(found[0]) if found else None
