"""The largest ids in the database."""

from __future__ import annotations

from agor.daemon.store import permissions, sessions, tasks, users
from agor.daemon.store.base import Store
from agor.daemon.store.newest import largest_ids
from tests.store.examples import a_permission, a_session, a_task, a_user, put


async def test_the_largest_id_of_each_table_is_found(store: Store):
    assert await largest_ids(store) == []
    await put(
        store,
        users.insert(a_user("user-1")),
        sessions.insert(a_session("session-2", 1)),
        sessions.insert(a_session("session-1", 2)),
        tasks.insert(a_task("task-1")),
        tasks.insert(a_task("task-2", position=2)),
        permissions.insert(a_permission("permission-1")),
    )
    assert sorted(await largest_ids(store)) == ["permission-1", "session-2", "task-2", "user-1"]
