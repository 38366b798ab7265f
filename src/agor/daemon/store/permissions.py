"""Permission requests, as they are stored."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Row, Statement, Store
from agor.daemon.store.rows import PermissionRow
from agor.daemon.store.shares import Circle

_INSERT = mapping.insert("permission_requests", PermissionRow, "permission_id")
_DECIDE = (
    "UPDATE permission_requests SET status = ?, decided_at = ?, decided_by = ?, reason = ?,"
    " updated_input = ?, decided_rule = ? WHERE permission_id = ?"
)
_SELECT = (
    f"SELECT {mapping.columns(PermissionRow, 'p.')}"  # noqa: S608 - names of ours
    " FROM permission_requests AS p"
)
#: SQLite keeps the order of a CROSS JOIN: it begins with the shares.
_SHARED = _SELECT.replace(" FROM ", " FROM shares AS h CROSS JOIN ")
_KEY = ("created_at", "permission_id")
_OWN_KEY = ("p.created_at", "p.permission_id")

_read = mapping.reader(PermissionRow)


def insert(row: PermissionRow) -> Statement:
    """Add a request."""
    return Statement(_INSERT, mapping.values(row))


def decide(row: PermissionRow) -> Statement:
    """Store what became of a request."""
    decision = (row.status, row.decided_at, row.decided_by, row.reason, row.updated_input)
    return Statement(_DECIDE, (*decision, row.decided_rule, row.permission_id))


async def get(store: Store, permission_id: str) -> PermissionRow | None:
    """Find a request."""
    return await _one(store, "p.permission_id = ?", (permission_id,))


async def by_request(store: Store, task_id: str, request_id: str) -> PermissionRow | None:
    """Find a request by the name that its executor gave it."""
    return await _one(store, "p.task_id = ? AND p.request_id = ?", (task_id, request_id))


async def pending_of_task(store: Store, task_id: str) -> list[PermissionRow]:
    """List the requests of a task that are not decided, in the order they came."""
    return await _pending(store, " AND p.task_id = ?", (task_id,))


async def pending(store: Store) -> list[PermissionRow]:
    """List all requests that are not decided, in the order they came."""
    return await _pending(store, "", ())


async def page(
    store: Store,
    circle: Circle | None,
    status: str | None,
    before: tuple[int, str] | None,
    limit: int,
) -> list[PermissionRow]:
    """List requests in somebody's sessions, or in all, the newest first.

    `before` is (created_at, permission_id) of the last one of the page before.
    """
    pages: list[Statement] = []
    wanted: list[tuple[str, Row]] = [] if status is None else [("p.status = ?", (status,))]
    if circle is None:
        pages.append(mapping.newest(_SELECT, wanted, _OWN_KEY, before, limit))
    if circle is not None and circle.own:
        own = [("p.user_id = ?", (circle.user_id,)), *wanted]
        pages.append(mapping.newest(_SELECT, own, _OWN_KEY, before, limit))
    if circle is not None and circle.shared:
        # Sorts all requests in the sessions shared with this person, and nobody else's.
        shared = [("h.user_id = ? AND p.session_id = h.session_id", (circle.user_id,)), *wanted]
        pages.append(mapping.newest(_SHARED, shared, _OWN_KEY, before, limit))
    return [_read(row) for row in await store.read(*mapping.merged(pages, _KEY, limit))]


async def _one(store: Store, condition: str, values: Row) -> PermissionRow | None:
    found = await store.read(f"{_SELECT} WHERE {condition}", values)
    return _read(found[0]) if found else None


async def _pending(store: Store, condition: str, values: Row) -> list[PermissionRow]:
    found = await store.read(
        f"{_SELECT} WHERE p.status = 'pending'{condition} ORDER BY p.created_at, p.permission_id",
        values,
    )
    return [_read(row) for row in found]
