"""Terminals, as they are stored: that they were there and how they ended, and nothing of inside."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Statement, Store
from agor.daemon.store.rows import TerminalRow

_INSERT = mapping.insert("terminals", TerminalRow, "terminal_id")
_SELECT = f"SELECT {mapping.columns(TerminalRow)} FROM terminals"  # noqa: S608 - names of ours
#: The first end counts.
_END = (
    "UPDATE terminals SET status = 'ended', exit_code = ?, how = ?, ended_at = ?"
    " WHERE terminal_id = ? AND status = 'open'"
)
_FORGET = (
    "DELETE FROM terminals WHERE session_id = ? AND status = 'ended' AND terminal_id NOT IN"
    " (SELECT terminal_id FROM terminals WHERE session_id = ? AND status = 'ended'"
    " ORDER BY created_at DESC, terminal_id DESC LIMIT ?)"
)

_read = mapping.reader(TerminalRow)


def insert(row: TerminalRow) -> Statement:
    """Add a terminal."""
    return Statement(_INSERT, mapping.values(row))


def end(row: TerminalRow) -> Statement:
    """Store how a terminal ended."""
    return Statement(_END, (row.exit_code, row.how, row.ended_at, row.terminal_id))


def forget_ended(session_id: str, keep: int) -> Statement:
    """Forget the ended ones of a session, but for so many of the newest."""
    return Statement(_FORGET, (session_id, session_id, keep))


async def get(store: Store, terminal_id: str) -> TerminalRow | None:
    """Find a terminal."""
    found = await store.read(f"{_SELECT} WHERE terminal_id = ?", (terminal_id,))
    return _read(found[0]) if found else None


async def of_session(store: Store, session_id: str, limit: int) -> list[TerminalRow]:
    """List the terminals of a session, the newest first."""
    found = await store.read(
        f"{_SELECT} WHERE session_id = ? ORDER BY created_at DESC, terminal_id DESC LIMIT ?",
        (session_id, limit),
    )
    return [_read(row) for row in found]


async def still_open(store: Store) -> list[TerminalRow]:
    """List all that have not ended."""
    found = await store.read(f"{_SELECT} WHERE status = 'open' ORDER BY terminal_id")
    return [_read(row) for row in found]
