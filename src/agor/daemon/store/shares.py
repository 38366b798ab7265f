"""Shares of sessions, as they are stored."""

from __future__ import annotations

from typing import NamedTuple

from agor.daemon.store import mapping
from agor.daemon.store.base import Statement, Store
from agor.daemon.store.rows import ShareRow

_COLUMNS = mapping.columns(ShareRow)
_PUT = (
    f"INSERT INTO shares ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608 - names of ours
    " ON CONFLICT (session_id, user_id) DO UPDATE SET access = excluded.access,"
    " created_by = excluded.created_by, created_at = excluded.created_at,"
    " session_created_at = excluded.session_created_at"
)
_SELECT = f"SELECT {_COLUMNS} FROM shares"  # noqa: S608 - names of ours

_read = mapping.reader(ShareRow)


class Circle(NamedTuple):
    """Somebody's sessions: their own, those shared with them, or both."""

    user_id: str
    own: bool = True
    shared: bool = True


def put(row: ShareRow) -> Statement:
    """Share a session with somebody, or change what they may do in it."""
    return Statement(_PUT, mapping.values(row))


def remove(session_id: str, user_id: str) -> Statement:
    """Share a session with somebody no more."""
    return Statement(
        "DELETE FROM shares WHERE session_id = ? AND user_id = ?", (session_id, user_id)
    )


async def of_session(store: Store, session_id: str) -> list[ShareRow]:
    """List whom a session is shared with."""
    found = await store.read(
        f"{_SELECT} WHERE session_id = ? ORDER BY created_at, user_id", (session_id,)
    )
    return [_read(row) for row in found]
