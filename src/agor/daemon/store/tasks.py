"""Tasks, as they are stored."""

from __future__ import annotations

from agor.daemon.store import mapping
from agor.daemon.store.base import Row, Statement, Store
from agor.daemon.store.rows import TaskRow

_INSERT = mapping.insert("tasks", TaskRow, "task_id")
#: What was received never becomes less, and a result does not vanish, whatever an older row says.
_UPDATE = (
    "UPDATE tasks SET status = ?, position = ?, executor_id = ?, started_at = ?, ended_at = ?,"
    " result = COALESCE(?, result), survivors = ?,"
    " received = CASE WHEN received > ? THEN received ELSE ? END WHERE task_id = ?"
)
RECEIVED = "UPDATE tasks SET received = ? WHERE task_id = ? AND received < ?"
_SELECT = f"SELECT {mapping.columns(TaskRow)} FROM tasks"  # noqa: S608 - names of ours
#: Word for word the condition of the partial index.
_UNFINISHED = "status IN ('queued', 'dispatching', 'running', 'awaiting_permission', 'stopping')"

_read = mapping.reader(TaskRow)


def insert(row: TaskRow) -> Statement:
    """Add a task."""
    return Statement(_INSERT, mapping.values(row))


def update(row: TaskRow) -> Statement:
    """Store all of a task that can change."""
    changing = (
        row.status, row.position, row.executor_id, row.started_at, row.ended_at,
        row.result, row.survivors, row.received, row.received, row.task_id,
    )  # fmt: skip
    return Statement(_UPDATE, changing)


def received(task_id: str, sequence: int) -> Statement:
    """Store up to where the events of its executor have come."""
    return Statement(RECEIVED, (sequence, task_id, sequence))


def result(task_id: str, told: bytes) -> Statement:
    """Store how its executor says that it ended."""
    return Statement("UPDATE tasks SET result = ? WHERE task_id = ?", (told, task_id))


async def get(store: Store, task_id: str) -> TaskRow | None:
    """Find a task."""
    found = await store.read(f"{_SELECT} WHERE task_id = ?", (task_id,))
    return _read(found[0]) if found else None


async def unfinished(store: Store) -> list[TaskRow]:
    """List the tasks of all sessions that have not ended; by session, in the queue's order."""
    found = await store.read(f"{_SELECT} WHERE {_UNFINISHED} ORDER BY session_id, position")
    return [_read(row) for row in found]


async def of_session_unfinished(store: Store, session_id: str) -> list[TaskRow]:
    """List the tasks of a session that have not ended, in the queue's order."""
    found = await store.read(
        f"{_SELECT} WHERE session_id = ? AND {_UNFINISHED} ORDER BY position", (session_id,)
    )
    return [_read(row) for row in found]


async def page(
    store: Store,
    session_id: str,
    status: str | None,
    before: tuple[int, str] | None,
    limit: int,
) -> list[TaskRow]:
    """List tasks of a session, the newest first; `before` is (created_at, task_id) of the last."""
    conditions = ["session_id = ?"]
    values: Row = (session_id,)
    if status is not None:
        conditions.append("status = ?")
        values += (status,)
    if before is not None:
        conditions.append("(created_at, task_id) < (?, ?)")
        values += before
    found = await store.read(
        f"{_SELECT}{mapping.where(conditions)} ORDER BY created_at DESC, task_id DESC LIMIT ?",
        (*values, limit),
    )
    return [_read(row) for row in found]


async def last_position(store: Store, session_id: str) -> int:
    """Tell the highest position that a task of the session ever had; 0 if there is none."""
    found = await store.read("SELECT MAX(position) FROM tasks WHERE session_id = ?", (session_id,))
    return found[0][0] or 0
