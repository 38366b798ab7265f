"""The audit log, as it is stored. What is written is numbered and chained by the writers."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Reads, Row, Statement
from agor.daemon.store.chain import GENESIS, Link
from agor.daemon.store.rows import AuditRow

_COLUMNS = mapping.columns(AuditRow)
_MARKS = ", ".join("?" * len(AuditRow.__struct_fields__))
#: A number that is taken is an error, never silently nothing.
INSERT = f"INSERT INTO audit ({_COLUMNS}) VALUES ({_MARKS})"  # noqa: S608 - names of ours
#: Where the log ends.
HEAD = "SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1"
_SELECT = f"SELECT {_COLUMNS} FROM audit"  # noqa: S608 - names of ours
#: Behind every text that begins with the one before it.
_LAST = "\U0010ffff"

_read = mapping.reader(AuditRow)


def insert(row: AuditRow) -> Statement:
    """Add a record that is chained."""
    return Statement(INSERT, mapping.values(row))


async def head(store: Reads) -> Link:
    """Tell where the log ends."""
    found = await store.read(HEAD)
    return Link(*found[0]) if found else GENESIS


async def hash_at(store: Reads, number: int) -> bytes | None:
    """Find the hash of a record."""
    found = await store.read("SELECT hash FROM audit WHERE number = ?", (number,))
    return found[0][0] if found else None


async def behind(store: Reads, number: int, limit: int) -> list[AuditRow]:
    """Read on behind a number, in order."""
    found = await store.read(f"{_SELECT} WHERE number > ? ORDER BY number LIMIT ?", (number, limit))
    return [_read(row) for row in found]


async def page(
    store: Reads,
    *,
    actor: tuple[str | None, str | None] | None,
    session_id: str | None,
    action: str | None,
    after: int | None,
    before: int | None,
    below: int | None,
    limit: int,
) -> list[AuditRow]:
    """List records, the newest first; `below` is the number of the last one of the page before.

    `actor` is somebody's id, or without one the name of what is nobody. An action that ends with a
    dot stands for all that begin so. Times: from `after` on, and until just before `before`.
    """
    conditions: list[str] = []
    values: Row = ()

    def require(condition: str, *given: object) -> None:
        nonlocal values
        conditions.append(condition)
        values += given

    if actor is not None:
        user_id, name = actor
        if user_id is not None:
            require("actor_id = ?", user_id)
        else:
            require("actor_id IS NULL AND actor = ?", name)
    if session_id is not None:
        require("session_id = ?", session_id)
    if action is not None and action.endswith("."):
        require("action > ? AND action < ?", action, action + _LAST)
    elif action is not None:
        require("action = ?", action)
    if after is not None:
        require("at >= ?", after)
    if before is not None:
        require("at < ?", before)
    if below is not None:
        require("number < ?", below)
    found = await store.read(
        f"{_SELECT}{mapping.where(conditions)} ORDER BY number DESC LIMIT ?", (*values, limit)
    )
    return [_read(row) for row in found]
