"""Tokens, receipts, people and executors in the database."""

from __future__ import annotations

import msgspec

from agor.daemon.pool.records import ExecutorRecord
from agor.daemon.store import executors, receipts, tokens, users
from agor.daemon.store.base import Store
from agor.protocol.launching import Family, Process
from tests.store.examples import a_receipt, a_token, a_user, put


async def test_a_token_comes_back_as_it_was_stored(store: Store):
    for row in (a_token(), a_token(b"bare", max_uses=None)):
        await put(store, tokens.insert(row))
        assert await tokens.get(store, row.token_hash) == row
    assert await tokens.get(store, b"another") is None


async def test_a_token_is_used_and_then_revoked_once(store: Store):
    row = a_token()
    await put(store, tokens.insert(row), tokens.insert(a_token(b"other", task_id="task-2")))
    await put(store, tokens.used(row.token_hash, 2))
    assert await tokens.of_task(store, "task-1") == [msgspec.structs.replace(row, uses=2)]
    await put(store, tokens.revoke(row.token_hash, 50))
    await put(store, tokens.revoke(row.token_hash, 60))
    found = await tokens.get(store, row.token_hash)
    assert found
    assert (found.uses, found.revoked_at) == (2, 50)
    assert await tokens.of_task(store, "task-1") == []
    assert len(await tokens.of_task(store, "task-2")) == 1


async def test_the_first_receipt_stays(store: Store):
    row = a_receipt()
    await put(store, receipts.insert(row))
    await put(store, receipts.insert(a_receipt(body=b"another", status=500)))
    assert await receipts.get(store, row.scope, row.key) == row
    assert await receipts.get(store, "another scope", row.key) is None


async def test_old_receipts_are_forgotten(store: Store):
    rows = [a_receipt(f"key-{at}", created_at=at) for at in (1, 2, 3)]
    await put(store, *map(receipts.insert, rows))
    await put(store, receipts.purge(3))
    kept = [row.key for row in rows if await receipts.get(store, row.scope, row.key)]
    assert kept == ["key-3"]


async def test_the_first_person_is_the_oldest(store: Store):
    assert await users.all_of(store) == []
    owner = a_user("b", created_at=1, unix_username="bea")
    await put(store, users.insert(a_user("a", created_at=2)), users.insert(owner))
    await put(store, users.insert(a_user("b", created_at=0, role="viewer")))
    assert await users.all_of(store) == [owner, a_user("a", created_at=2)]
    assert await users.get(store, "a") == a_user("a", created_at=2)
    assert await users.get(store, "c") is None


async def test_executors_come_back_as_they_were_stored(store: Store):
    records = [
        ExecutorRecord(
            executor_id=name,
            session_id="session-1",
            user_id="user-1",
            unix_user="ann",
            started_at=started,
            terminal_id=terminal,
            family=Family(
                executor_id=name, keeper=Process(pid=7, started=70), executor=Process(8, 2**60)
            ),
        )
        for name, started, terminal in (
            ("a", 1_700_000_000.25, None),
            ("b", 1_600_000_000.123456, "terminal-1"),
        )
    ]
    await put(store, *map(executors.insert, records))
    assert await executors.load(store) == records[::-1]
    await put(store, executors.remove("a"), executors.remove("never there"))
    assert await executors.load(store) == records[1:]
