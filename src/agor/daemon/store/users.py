"""People, as they are stored."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Statement, Store
from agor.daemon.store.rows import UserRow

_INSERT = mapping.insert("users", UserRow, "user_id")
_SELECT = f"SELECT {mapping.columns(UserRow)} FROM users"  # noqa: S608 - names of ours

_read = mapping.reader(UserRow)


def insert(row: UserRow) -> Statement:
    """Add a person, unless there is one with this id."""
    return Statement(_INSERT, mapping.values(row))


def update(row: UserRow) -> Statement:
    """Change a person: all of them but who they are."""
    return Statement(
        "UPDATE users SET name = ?, role = ?, unix_username = ?, password_hash = ?,"
        " disabled_at = ? WHERE user_id = ?",
        (
            row.name,
            row.role,
            row.unix_username,
            row.password_hash,
            row.disabled_at,
            row.user_id,
        ),
    )


async def get(store: Store, user_id: str) -> UserRow | None:
    """Find a person."""
    found = await store.read(f"{_SELECT} WHERE user_id = ?", (user_id,))
    return _read(found[0]) if found else None


async def all_of(store: Store) -> list[UserRow]:
    """List everybody; who was there first, the owner of this home, comes first."""
    found = await store.read(f"{_SELECT} ORDER BY created_at, user_id")
    return [_read(row) for row in found]
