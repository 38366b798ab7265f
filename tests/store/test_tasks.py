"""Tasks in the database."""

from __future__ import annotations

import asyncio
from typing import get_args

import msgspec
import pytest

from agor.daemon.store import tasks
from agor.daemon.store.base import Statement, Store, Write
from agor.protocol.api import TaskStatus
from tests.contract.waiting import soon
from tests.store.examples import a_task, put

UNFINISHED = {"queued", "dispatching", "running", "awaiting_permission", "stopping"}


async def test_a_task_comes_back_as_it_was_stored(store: Store):
    full = a_task(
        "full",
        model="model-1",
        executor_id="executor-1",
        started_at=5,
        ended_at=6,
        result=b'{"status":"completed"}',
        survivors=0,
        prompt="x" * 1_000_000,
    )
    for row in (a_task(), full):
        await put(store, tasks.insert(row))
        assert await tasks.get(store, row.task_id) == row
    assert await tasks.get(store, "nobody") is None


async def test_all_that_can_change_of_a_task_is_stored(store: Store):
    row = a_task()
    await put(store, tasks.insert(row), tasks.insert(a_task("other")))
    changed = msgspec.structs.replace(
        row,
        status="failed",
        position=9,
        executor_id="executor-1",
        received=4,
        started_at=5,
        ended_at=6,
        result=b"{}",
        survivors=2,
    )
    await put(store, tasks.update(changed))
    assert await tasks.get(store, row.task_id) == changed
    assert await tasks.get(store, "other") == a_task("other")


async def test_what_was_received_never_becomes_less(store: Store):
    row = a_task()
    await put(store, tasks.insert(row), tasks.received(row.task_id, 12))
    await put(store, tasks.received(row.task_id, 7))
    # Somebody who held the row from before changes something else.
    await put(store, tasks.update(msgspec.structs.replace(row, status="running")))
    found = await tasks.get(store, row.task_id)
    assert found
    assert (found.received, found.status) == (12, "running")


@pytest.mark.parametrize("count", [1, 2, 3, 31, 100])
async def test_what_many_tasks_have_received_is_stored_at_once(store: Store, count: int):
    """They are in one group; the task itself may be new in it, and be changed after."""
    rows = [a_task(f"t{number}") for number in range(count)]
    writes = [Write([tasks.insert(row)]) for row in rows]
    for sequence in (3, 9, 5):
        writes += [Write([tasks.received(row.task_id, sequence)]) for row in rows]
    writes += [
        Write([tasks.update(msgspec.structs.replace(row, status="running"))]) for row in rows
    ]
    await soon(asyncio.gather(*map(store.commit, writes)))
    found = [await tasks.get(store, row.task_id) for row in rows]
    assert {(row.received, row.status) for row in found if row} == {(9, "running")}
    assert len(found) == count


async def test_a_result_stays_when_an_older_row_is_stored_after_it(store: Store):
    row = a_task()
    await put(store, tasks.insert(row), tasks.result(row.task_id, b'{"status":"completed"}'))
    await put(store, tasks.update(msgspec.structs.replace(row, status="completed")))
    found = await tasks.get(store, row.task_id)
    assert found
    assert found.result == b'{"status":"completed"}'


async def test_the_unfinished_are_found_in_the_order_of_their_queues(store: Store):
    rows = [
        a_task(f"{session}-{status}", session, status=status, position=100 - place)
        for session in ("b", "a")
        for place, status in enumerate(get_args(TaskStatus))
    ]
    await put(store, *map(tasks.insert, rows))
    expected = sorted(
        (row for row in rows if row.status in UNFINISHED),
        key=lambda row: (row.session_id, row.position),
    )
    assert await tasks.unfinished(store) == expected
    of_a = [row for row in expected if row.session_id == "a"]
    assert await tasks.of_session_unfinished(store, "a") == of_a
    assert await tasks.of_session_unfinished(store, "c") == []


async def test_pages_are_of_one_session_and_can_be_of_one_status(store: Store):
    rows = [
        a_task(
            f"t{number:02}", ("a", "b")[number % 2], created_at=number // 3, position=number,
            status=("completed", "failed")[number % 3 == 0],
        )
        for number in range(20)
    ]  # fmt: skip
    await put(store, *map(tasks.insert, rows))
    seen, before = [], None
    while page := await tasks.page(store, "a", None, before, 3):
        seen += page
        before = (page[-1].created_at, page[-1].task_id)
    assert [row.task_id for row in seen] == [f"t{number:02}" for number in range(18, -1, -2)]
    failed = await tasks.page(store, "b", "failed", None, 100)
    assert [row.task_id for row in failed] == ["t15", "t09", "t03"]


async def test_the_last_position_counts_the_ended_too(store: Store):
    assert await tasks.last_position(store, "session-1") == 0
    await put(
        store,
        tasks.insert(a_task("a", position=4, status="completed")),
        tasks.insert(a_task("b", position=2)),
        tasks.insert(a_task("c", "other", position=9)),
    )
    assert await tasks.last_position(store, "session-1") == 4


async def test_looking_for_the_unfinished_does_not_look_at_the_others(store: Store, url: str):
    """The daemon's start must not take longer with every task that ever ran."""
    done = [a_task(f"t{number}", status="completed") for number in range(300)]
    await put(store, *map(tasks.insert, done), tasks.insert(a_task("open", "session-2")))
    await put(store, Statement("ANALYZE tasks"))
    explain = "EXPLAIN QUERY PLAN" if url.startswith("sqlite") else "EXPLAIN"
    plan = await store.read(f"{explain} SELECT * FROM tasks WHERE {tasks._UNFINISHED}")
    assert "ix_tasks_unfinished" in str(plan)
