"""What a commit promises, on either database."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from agor.daemon.store import connect, sessions, tasks
from agor.daemon.store.base import EventRun, Statement, Store, Write
from agor.errors import StoreError, StoreUnavailable
from tests.contract.waiting import soon
from tests.store.examples import a_session, a_task, put, sequences, some_events

NONSENSE = Statement("INSERT INTO nowhere VALUES (?)", (1,))


async def reopened(store: Store, url: str) -> Store:
    await store.close()
    again = connect(url)
    await again.open()
    return again


async def test_what_was_committed_is_there_after_a_restart(store: Store, url: str):
    await store.commit(Write([sessions.insert(a_session())], some_events(1, 1, 3).events))
    again = await reopened(store, url)
    assert await sessions.get(again, "session-1") == a_session()
    assert await sequences(again, 1) == [1, 2, 3]
    await again.close()


async def test_a_write_is_stored_whole_or_not_at_all(store: Store):
    with pytest.raises(StoreError):
        await store.commit(
            Write([sessions.insert(a_session()), NONSENSE], some_events(1, 1, 3).events)
        )
    assert await sessions.get(store, "session-1") is None
    assert await sequences(store, 1) == []


@pytest.mark.parametrize(
    "poison",
    [
        NONSENSE,
        Statement("INSERT INTO users (user_id) VALUES (?)", ("without a name",)),
        Statement("UPDATE sessions SET title = ?", ({"no": "text"},)),
        Statement("UPDATE sessions SET created_at = ?", (2**80,)),
        Statement("UPDATE sessions SET title = ?", ("\ud800",)),
        Statement("UPDATE sessions SET title = ?", ("one", "too many")),
        Statement("nonsense"),
    ],
    ids=str,
)
async def test_a_write_that_cannot_be_stored_fails_alone(store: Store, poison: Statement):
    """All of them are in one group: they were handed in before the writer could run."""
    writes = [some_events(number, 1, 2) for number in range(1, 21)]
    writes[9] = Write([poison], some_events(10, 1, 2).events)
    results = await soon(asyncio.gather(*map(store.commit, writes), return_exceptions=True))
    refused = results.pop(9)
    assert isinstance(refused, StoreError)
    assert not isinstance(refused, StoreUnavailable)
    assert refused.hint
    assert results == [None] * 19
    for number in range(1, 21):
        assert await sequences(store, number) == ([] if number == 10 else [1, 2])
    assert store.available


@pytest.mark.parametrize("sequence", [2**70, None])
async def test_an_event_that_cannot_be_stored_fails_alone(store: Store, sequence):
    bad = Write(events=[EventRun(2, 1, [b"{}"]), EventRun(2, sequence, [b"{}"])])
    writes = [some_events(1, 1, 3), bad, some_events(3, 1, 3)]
    results = await soon(asyncio.gather(*map(store.commit, writes), return_exceptions=True))
    assert isinstance(results[1], StoreError)
    assert not isinstance(results[1], StoreUnavailable)
    assert (results[0], results[2]) == (None, None)
    assert [await sequences(store, number) for number in (1, 2, 3)] == [[1, 2, 3], [], [1, 2, 3]]


async def test_writes_are_carried_out_in_the_order_they_were_handed_in(store: Store):
    await put(store, tasks.insert(a_task()))
    changes = [
        store.commit(Write([Statement("UPDATE tasks SET prompt = prompt || ?", (f"{number},",))]))
        for number in range(200)
    ]
    await soon(asyncio.gather(*changes))
    found = await tasks.get(store, "task-1")
    assert found
    assert found.prompt == a_task().prompt + "".join(f"{number}," for number in range(200))


async def test_many_at_once_are_all_stored(store: Store):
    async def produce(session: int) -> None:
        for sequence in range(1, 101):
            await store.commit(some_events(session, sequence, sequence))

    await soon(asyncio.gather(*map(produce, range(1, 51))))
    for session in range(1, 51):
        assert await sequences(store, session) == list(range(1, 101))


async def test_what_a_cancelled_caller_handed_in_is_stored_all_the_same(store: Store):
    callers = [
        asyncio.ensure_future(store.commit(some_events(number, 1, 50))) for number in range(1, 11)
    ]
    await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    for caller in callers:
        with pytest.raises(asyncio.CancelledError):
            await caller
    # The next one comes after them.
    await soon(store.commit(some_events(99, 1, 1)))
    for number in range(1, 11):
        assert await sequences(store, number) == list(range(1, 51))


async def test_a_cancelled_caller_of_a_bad_write_harms_nobody(store: Store):
    bad = asyncio.ensure_future(store.commit(Write([NONSENSE])))
    good = asyncio.ensure_future(store.commit(some_events(1, 1, 1)))
    await asyncio.sleep(0)
    bad.cancel()
    await soon(good)
    assert await sequences(store, 1) == [1]


async def test_closing_writes_what_is_waiting(store: Store, url: str):
    callers = [
        asyncio.ensure_future(store.commit(some_events(number, 1, 20))) for number in range(1, 101)
    ]
    await asyncio.sleep(0)
    again = await soon(reopened(store, url))
    assert [caller.exception() for caller in callers] == [None] * 100
    found = await again.read("SELECT COUNT(*) FROM events")
    assert found == [(2000,)]
    await again.close()


async def test_what_was_refused_stays_so_even_if_it_is_awaited_later(url: str):
    store = connect(url)
    refused = store.commit(some_events(1, 1, 1))
    await store.open()
    try:
        with pytest.raises(StoreUnavailable, match="closed"):
            await refused
        assert await sequences(store, 1) == []
    finally:
        await store.close()


async def test_a_store_that_is_not_open_refuses_everything(url: str):
    store = connect(url)
    for _ in range(2):
        assert not store.available
        for asking in (
            store.commit(some_events(1, 1, 1)),
            store.read("SELECT 1"),
            store.snapshot([Statement("SELECT 1")]),
            store.events(1, 0, 1, 1),
        ):
            with pytest.raises(StoreUnavailable, match="closed"):
                await asking
        await store.open()
        await store.commit(some_events(1, 1, 1))
        await store.close()
        await store.close()


async def test_a_store_can_be_opened_again(store: Store):
    await store.close()
    await store.open()
    await store.commit(some_events(1, 1, 1))
    assert await sequences(store, 1) == [1]


async def test_a_second_store_on_the_same_database_is_refused(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("agor.daemon.store.sqlite.file._LOCK_SECONDS", 0.05)
    second = connect(url)
    with pytest.raises(StoreError, match="another daemon uses") as refused:
        await second.open()
    assert refused.value.hint
    await store.commit(some_events(1, 1, 1))
    await store.close()
    await second.open()
    assert await sequences(second, 1) == [1]
    await second.close()


async def test_a_bad_question_is_an_error_of_its_own(store: Store):
    for asking in (store.read("SELECT nonsense"), store.snapshot([Statement("SELECT nonsense")])):
        with pytest.raises(StoreError, match="nonsense"):
            await asking
    assert await store.read("SELECT 1") == [(1,)]


async def test_reading_cannot_write(store: Store):
    with pytest.raises(StoreError):
        await store.read("DELETE FROM users")


async def test_a_snapshot_is_of_one_moment(store: Store):
    """Each commit adds one row to both tables, so they must always be equally long."""
    going_on = True

    async def produce() -> None:
        number = 0
        while going_on:
            number += 1
            session = a_session(f"s{number}", number)
            await store.commit(
                Write([sessions.insert(session)], some_events(1, number, number).events)
            )

    producer = asyncio.create_task(produce())
    questions = [
        Statement("SELECT COUNT(*) FROM sessions"),
        Statement("SELECT COUNT(*) FROM events"),
    ]
    seen: set[int] = set()
    with suppress(TimeoutError):
        async with asyncio.timeout(20):
            while len(seen) < 30:
                [[(one,)], [(other,)]] = await store.snapshot(questions)
                assert one == other
                seen.add(one)
    going_on = False
    await soon(producer)
    assert len(seen) == 30


async def test_a_cancelled_question_leaves_the_others_alone(store: Store):
    await store.commit(some_events(1, 1, 1000))
    asking = [asyncio.create_task(store.read("SELECT * FROM events")) for _ in range(20)]
    await asyncio.sleep(0)
    for one in asking[::2]:
        one.cancel()
    done = await soon(asyncio.gather(*asking, return_exceptions=True))
    assert [len(found) for found in done[1::2] if isinstance(found, list)] == [1000] * 10
    assert await store.read("SELECT 1") == [(1,)]
