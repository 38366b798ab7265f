"""Sessions in the database."""

from __future__ import annotations

import msgspec
import pytest

from agor.daemon.store import (
    message_texts,
    messages,
    permissions,
    receipts,
    sessions,
    tasks,
    tokens,
)
from agor.daemon.store.base import Store
from agor.daemon.store.shares import Circle
from agor.errors import StoreError
from tests.store.examples import (
    ODD,
    a_message,
    a_permission,
    a_receipt,
    a_session,
    a_task,
    a_token,
    put,
    sequences,
    some_events,
)


async def test_a_session_comes_back_as_it_was_stored(store: Store):
    for row in (a_session(), a_session("bare", 2, title=None, model=None, agent_session_id=None)):
        await put(store, sessions.insert(row))
        assert await sessions.get(store, row.session_id) == row
    assert await sessions.get(store, "nobody") is None


async def test_all_that_can_change_of_a_session_is_stored(store: Store):
    row = a_session()
    await put(store, sessions.insert(row), sessions.insert(a_session("other", 2)))
    changed = msgspec.structs.replace(
        row,
        status="failed",
        title=None,
        permission_mode="plan",
        model=None,
        environment="docker",
        agent_session_id="theirs-2",
        updated_at=row.updated_at + 1,
    )
    await put(store, sessions.update(changed))
    assert await sessions.get(store, row.session_id) == changed
    assert await sessions.get(store, "other") == a_session("other", 2)


async def test_pages_go_from_the_newest_to_the_oldest_and_miss_none_of_the_same_moment(
    store: Store,
):
    rows = [a_session(f"s{number}", number, created_at=number // 3) for number in range(1, 11)]
    await put(store, *map(sessions.insert, rows))
    seen, before = [], None
    while page := await sessions.page(store, None, None, before, 4):
        seen += page
        before = (page[-1].created_at, page[-1].session_id)
    assert seen == sorted(rows, key=lambda row: (row.created_at, row.session_id), reverse=True)


async def test_pages_can_be_of_one_user_and_of_one_status(store: Store):
    rows = [
        a_session(
            f"s{number}",
            number,
            created_at=number,
            user_id=("ann", "bob")[number % 2],
            status=("idle", "failed")[number % 3 == 0],
        )
        for number in range(1, 13)
    ]
    await put(store, *map(sessions.insert, rows))

    async def numbers(user: str | None, status: str | None, before=None) -> list[int]:
        circle = Circle(user) if user else None
        return [row.number for row in await sessions.page(store, circle, status, before, 100)]

    assert await numbers("ann", None) == [12, 10, 8, 6, 4, 2]
    assert await numbers(None, "failed") == [12, 9, 6, 3]
    assert await numbers("bob", "failed") == [9, 3]
    assert await numbers("bob", "failed", (9, "s9")) == [3]
    assert await numbers("nobody", None) == []


async def test_the_last_number_is_that_of_the_newest_session(store: Store):
    assert await sessions.last_number(store) == 0
    await put(store, sessions.insert(a_session("a", 7)), sessions.insert(a_session("b", 3)))
    assert await sessions.last_number(store) == 7


async def test_two_sessions_cannot_have_the_same_number(store: Store):
    await put(store, sessions.insert(a_session("a", 1)))
    with pytest.raises(StoreError):
        await put(store, sessions.insert(a_session("b", 1)))
    assert await sessions.get(store, "b") is None


async def test_a_deleted_session_takes_all_that_is_its_own_and_nothing_else(store: Store):
    for name, number in (("gone", 1), ("stays", 2)):
        mine = {"session_id": name, "task_id": f"task-{name}"}
        await put(
            store,
            sessions.insert(a_session(name, number)),
            tasks.insert(a_task(f"task-{name}", name)),
            messages.start(a_message(1, number, last_sequence=3)),
            message_texts.put(number, 1, ODD, len(ODD)),
            permissions.insert(a_permission(f"permission-{name}", **mine)),
            tokens.insert(a_token(name.encode(), **mine)),
            receipts.insert(a_receipt(name)),
        )
        await store.commit(some_events(number, 1, 3))
    await put(store, *sessions.delete(a_session("gone", 1)))

    assert await sessions.get(store, "gone") is None
    assert await tasks.get(store, "task-gone") is None
    assert await messages.snapshot_page(store, 1, None, 10) == ([], 0)
    assert await message_texts.of(store, 1, [1]) == {}
    assert await permissions.get(store, "permission-gone") is None
    assert await tokens.get(store, b"gone") is None
    assert await sequences(store, 1) == []
    # The answer to a request that is sent again is still the same.
    assert await receipts.get(store, a_receipt().scope, "gone")

    assert await sessions.get(store, "stays")
    assert await tasks.get(store, "task-stays")
    assert await messages.snapshot_page(store, 2, None, 10) == (
        [a_message(1, 2, last_sequence=3)],
        3,
    )
    assert await message_texts.of(store, 2, [1]) == {1: (ODD, len(ODD))}
    assert await permissions.get(store, "permission-stays")
    assert await tokens.get(store, b"stays")
    assert await sequences(store, 2) == [1, 2, 3]
