"""Permission requests in the database."""

from __future__ import annotations

import msgspec
import pytest

from agor.daemon.store import permissions, sessions
from agor.daemon.store.base import Store
from agor.daemon.store.shares import Circle
from agor.errors import StoreError
from tests.store.examples import a_permission, a_session, put


async def test_a_request_comes_back_as_it_was_stored(store: Store):
    row = a_permission()
    await put(store, permissions.insert(row))
    assert await permissions.get(store, row.permission_id) == row
    assert await permissions.by_request(store, row.task_id, row.request_id) == row
    assert await permissions.get(store, "nobody") is None
    assert await permissions.by_request(store, row.task_id, "nothing") is None


async def test_a_decision_is_stored(store: Store):
    row = a_permission(tool_use_id=None)
    await put(store, permissions.insert(row), permissions.insert(a_permission("other")))
    decided = msgspec.structs.replace(
        row,
        status="approved",
        decided_at=7,
        decided_by="user-1",
        reason="fine",
        updated_input=b'{"command":"pwd"}',
        decided_rule="rule-1",
    )
    await put(store, permissions.decide(decided))
    assert await permissions.get(store, row.permission_id) == decided
    assert await permissions.get(store, "other") == a_permission("other")


async def test_one_request_of_a_task_is_asked_once(store: Store):
    await put(store, permissions.insert(a_permission("a", request_id="same")))
    with pytest.raises(StoreError):
        await put(store, permissions.insert(a_permission("b", request_id="same")))
    await put(store, permissions.insert(a_permission("c", request_id="same", task_id="other")))


async def test_the_pending_are_found_in_the_order_they_came(store: Store):
    rows = [
        a_permission("c", created_at=3),
        a_permission("a", created_at=5),
        a_permission("b", created_at=4, status="denied"),
        a_permission("d", created_at=1, task_id="task-2"),
    ]
    await put(store, *map(permissions.insert, rows))
    assert [row.permission_id for row in await permissions.pending(store)] == ["d", "c", "a"]
    of_task = await permissions.pending_of_task(store, "task-1")
    assert [row.permission_id for row in of_task] == ["c", "a"]
    assert await permissions.pending_of_task(store, "task-3") == []


async def test_pages_can_be_of_one_user_and_of_one_status(store: Store):
    await put(
        store,
        sessions.insert(a_session("s0", 1, user_id="ann")),
        sessions.insert(a_session("s1", 2, user_id="bob")),
        *(
            permissions.insert(
                a_permission(
                    f"p{number}",
                    session_id=f"s{number % 2}",
                    user_id=("ann", "bob")[number % 2],
                    created_at=number // 2,
                    status=("pending", "denied")[number % 3 == 0],
                )
            )
            for number in range(1, 10)
        ),
    )

    async def names(user: str | None, status: str | None, before=None, limit: int = 100):
        found = await permissions.page(store, Circle(user) if user else None, status, before, limit)
        return [row.permission_id for row in found]

    assert await names(None, None, None, 4) == ["p9", "p8", "p7", "p6"]
    assert await names(None, None, (3, "p6"), 4) == ["p5", "p4", "p3", "p2"]
    assert await names("ann", None) == ["p8", "p6", "p4", "p2"]
    assert await names(None, "denied") == ["p9", "p6", "p3"]
    assert await names("bob", "denied", (4, "p9")) == ["p3"]
    assert await names("nobody", None) == []
