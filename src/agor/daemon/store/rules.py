"""Permission rules, as they are stored."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Row, Statement, Store
from agor.daemon.store.rows import RuleRow

_INSERT = mapping.insert("permission_rules", RuleRow, "rule_id")
_SELECT = f"SELECT {mapping.columns(RuleRow)} FROM permission_rules"  # noqa: S608 - names of ours
_LIVE = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"

_read = mapping.reader(RuleRow)


def insert(row: RuleRow) -> Statement:
    """Add a rule."""
    return Statement(_INSERT, mapping.values(row))


def revoke(rule_id: str, at: int) -> Statement:
    """Have a rule hold no more, from this time on; the first time counts."""
    return Statement(
        "UPDATE permission_rules SET revoked_at = ? WHERE rule_id = ? AND revoked_at IS NULL",
        (at, rule_id),
    )


async def get(store: Store, rule_id: str) -> RuleRow | None:
    """Find a rule, also one that holds no more."""
    found = await store.read(f"{_SELECT} WHERE rule_id = ?", (rule_id,))
    return _read(found[0]) if found else None


async def live(store: Store, at: int, user_id: str | None = None) -> list[RuleRow]:
    """List the rules of a person, or of all, that hold at a time, the oldest first."""
    conditions = [_LIVE]
    values: Row = (at,)
    if user_id is not None:
        conditions.append("user_id = ?")
        values += (user_id,)
    return await _list(store, conditions, values, "created_at, rule_id")


async def page(
    store: Store, user_id: str, live_at: int | None, before: tuple[int, str] | None, limit: int
) -> list[RuleRow]:
    """List a person's rules, the newest first: all, or those that hold at a time.

    `before` is (created_at, rule_id) of the last one of the page before.
    """
    conditions = ["user_id = ?"]
    values: Row = (user_id,)
    if live_at is not None:
        conditions.append(_LIVE)
        values += (live_at,)
    if before is not None:
        conditions.append("(created_at, rule_id) < (?, ?)")
        values += before
    return await _list(store, conditions, (*values, limit), "created_at DESC, rule_id DESC LIMIT ?")


async def _list(store: Store, conditions: list[str], values: Row, order: str) -> list[RuleRow]:
    found = await store.read(f"{_SELECT}{mapping.where(conditions)} ORDER BY {order}", values)
    return [_read(row) for row in found]
