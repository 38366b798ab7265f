"""Sessions, as they are stored."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Row, Statement, Store
from agor.daemon.store.rows import SessionRow
from agor.daemon.store.shares import Circle

_INSERT = mapping.insert("sessions", SessionRow, "session_id")
#: What the agent calls the conversation does not vanish, whatever an older row says.
_UPDATE = (
    "UPDATE sessions SET status = ?, title = ?, permission_mode = ?, model = ?, environment = ?,"
    " agent_session_id = COALESCE(?, agent_session_id), updated_at = ?, mcp_servers = ?"
    " WHERE session_id = ?"
)
_SELECT = f"SELECT {mapping.columns(SessionRow)} FROM sessions"  # noqa: S608 - names of ours
#: SQLite keeps the order of a CROSS JOIN: it reads the index of the shares and sorts nothing.
_SHARED = (
    f"SELECT {mapping.columns(SessionRow, 's.')}"  # noqa: S608 - names of ours
    " FROM shares AS h CROSS JOIN sessions AS s"
)
_KEY = ("created_at", "session_id")
_SHARED_KEY = ("h.session_created_at", "h.session_id")
#: What goes with a session, by its id. The receipts of its requests stay until they are old.
_BY_ID = ("tokens", "permission_requests", "shares", "terminals", "tasks", "sessions")
_BY_NUMBER = ("events", "messages", "message_texts")

_read = mapping.reader(SessionRow)


def insert(row: SessionRow) -> Statement:
    """Add a session."""
    return Statement(_INSERT, mapping.values(row))


def update(row: SessionRow) -> Statement:
    """Store all of a session that can change."""
    changing = (
        row.status, row.title, row.permission_mode, row.model, row.environment,
        row.agent_session_id, row.updated_at, row.mcp_servers, row.session_id,
    )  # fmt: skip
    return Statement(_UPDATE, changing)


def agent_session(session_id: str, name: str) -> Statement:
    """Store what the agent calls the conversation."""
    return Statement(
        "UPDATE sessions SET agent_session_id = ? WHERE session_id = ?", (name, session_id)
    )


def delete(row: SessionRow) -> list[Statement]:
    """Remove a session and all that is its own."""
    return [
        *(
            Statement(f"DELETE FROM {table} WHERE session_number = ?", (row.number,))  # noqa: S608
            for table in _BY_NUMBER
        ),
        *(
            Statement(f"DELETE FROM {table} WHERE session_id = ?", (row.session_id,))  # noqa: S608
            for table in _BY_ID
        ),
        Statement(
            "DELETE FROM permission_rules WHERE scope = 'session' AND scope_id = ?",
            (row.session_id,),
        ),
    ]


async def get(store: Store, session_id: str) -> SessionRow | None:
    """Find a session."""
    found = await store.read(f"{_SELECT} WHERE session_id = ?", (session_id,))
    return _read(found[0]) if found else None


async def page(
    store: Store,
    circle: Circle | None,
    status: str | None,
    before: tuple[int, str] | None,
    limit: int,
) -> list[SessionRow]:
    """List somebody's sessions or all, the newest first.

    `before` is (created_at, session_id) of the last one.
    """
    pages: list[Statement] = []
    wanted: list[tuple[str, Row]] = [] if status is None else [("status = ?", (status,))]
    if circle is None:
        pages.append(mapping.newest(_SELECT, wanted, _KEY, before, limit))
    if circle is not None and circle.own:
        own = [("user_id = ?", (circle.user_id,)), *wanted]
        pages.append(mapping.newest(_SELECT, own, _KEY, before, limit))
    if circle is not None and circle.shared:
        shared = [("h.user_id = ? AND s.session_id = h.session_id", (circle.user_id,)), *wanted]
        pages.append(mapping.newest(_SHARED, shared, _SHARED_KEY, before, limit))
    return [_read(row) for row in await store.read(*mapping.merged(pages, _KEY, limit))]


async def workspaces(store: Store, session_ids: list[str]) -> dict[str, str]:
    """Tell where these sessions work, as far as they are there."""
    if not session_ids:
        return {}
    marks = ", ".join("?" * len(session_ids))
    found = await store.read(
        f"SELECT session_id, workspace FROM sessions WHERE session_id IN ({marks})",  # noqa: S608
        tuple(session_ids),
    )
    return dict(found)


async def last_number(store: Store) -> int:
    """Tell the highest number a session has; 0 if there is none."""
    found = await store.read("SELECT MAX(number) FROM sessions")
    return found[0][0] or 0
