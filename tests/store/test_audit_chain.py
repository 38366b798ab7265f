"""The audit log is chained in the transaction of what it tells of, on either database."""

from __future__ import annotations

import asyncio

import pytest

from agor.daemon.store import audit, connect, sessions
from agor.daemon.store.base import Statement, Store, Write
from agor.daemon.store.chain import GENESIS
from agor.daemon.store.checking import follow
from agor.daemon.store.rows import AuditRow
from agor.errors import StoreError, StoreUnavailable
from tests.contract.waiting import soon
from tests.store.examples import a_record, a_session, put, sequences, some_events

NONSENSE = Statement("INSERT INTO nowhere VALUES (?)", (1,))


async def rows(store: Store) -> list[AuditRow]:
    """Read the whole log, and see that its chain is right."""
    found = await audit.behind(store, 0, 1_000_000)
    assert follow(GENESIS, found) == len(found)
    return found


async def subjects(store: Store) -> list[str | None]:
    return [row.subject for row in await rows(store)]


def noting(*names: str, statements: tuple[Statement, ...] = ()) -> Write:
    return Write(statements, records=[a_record(name) for name in names])


async def test_a_record_is_stored_with_all_its_members(store: Store):
    record = a_record(session_id="session-1", result="refused", detail=b"\x00\xff")
    await store.commit(Write(records=[record]))
    [row] = await rows(store)
    for name in record.__struct_fields__:
        assert getattr(row, name) == getattr(record, name), name
    assert row.number == 1


async def test_records_are_numbered_without_gaps_in_the_order_of_their_commits(store: Store):
    names = [str(number) for number in range(300)]
    await soon(asyncio.gather(*(store.commit(noting(name)) for name in names)))
    await store.commit(noting("a", "b", "c"))
    assert await subjects(store) == [*names, "a", "b", "c"]
    assert [row.number for row in await rows(store)] == list(range(1, 304))


async def test_a_record_and_what_it_tells_of_are_stored_together_or_not_at_all(store: Store):
    bad = (sessions.insert(a_session("bad", 1)), NONSENSE)
    with pytest.raises(StoreError):
        await store.commit(noting("bad", statements=bad))
    assert await subjects(store) == []
    good = (sessions.insert(a_session("good", 2)),)
    await store.commit(noting("good", statements=good))
    assert await subjects(store) == ["good"]
    assert await sessions.get(store, "good") is not None


@pytest.mark.parametrize("bad", [[9], [0], [19], [0, 1, 2], [3, 9, 10, 19], list(range(20))])
async def test_a_refused_write_in_a_group_leaves_no_gap(store: Store, bad: list[int]):
    """All of them are in one group: they were handed in before the writer could run."""
    await store.commit(noting("before"))
    writes = [
        noting(str(place), f"{place}+", statements=(NONSENSE,) if place in bad else ())
        for place in range(20)
    ]
    results = await soon(asyncio.gather(*map(store.commit, writes), return_exceptions=True))
    assert [place for place, result in enumerate(results) if result is not None] == bad
    await store.commit(noting("after"))
    good = [name for place in range(20) if place not in bad for name in (f"{place}", f"{place}+")]
    assert await subjects(store) == ["before", *good, "after"]


@pytest.mark.parametrize(
    "members",
    [
        {"actor": "\ud800"},
        {"at": 2**70},
        {"at": None},
        {"detail": "text"},
        {"actor": None},
        {"subject": 7},
    ],
    ids=str,
)
async def test_a_record_that_cannot_be_stored_fails_with_its_write_alone(store: Store, members):
    bad = Write(some_events(2, 1, 1).statements, some_events(2, 1, 1).events, [a_record(**members)])
    writes = [noting("1"), bad, noting("2")]
    results = await soon(asyncio.gather(*map(store.commit, writes), return_exceptions=True))
    assert isinstance(results[1], StoreError)
    assert not isinstance(results[1], StoreUnavailable)
    assert (results[0], results[2]) == (None, None)
    assert await subjects(store) == ["1", "2"]
    assert await sequences(store, 2) == []


async def test_the_chain_goes_on_after_a_restart(store: Store, url: str):
    await store.commit(noting("1", "2"))
    await store.close()
    again = connect(url)
    await again.open()
    await again.commit(noting("3"))
    assert await subjects(again) == ["1", "2", "3"]
    await again.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET actor = 'nobody'",
        "UPDATE audit SET number = number",
        "DELETE FROM audit WHERE number = 2",
        "DELETE FROM audit",
    ],
)
async def test_the_database_refuses_to_change_or_remove_a_record(store: Store, change: str):
    await store.commit(noting("1", "2"))
    with pytest.raises(StoreError, match="append-only"):
        await put(store, Statement(change))
    await store.commit(noting("3"))
    assert await subjects(store) == ["1", "2", "3"]


async def test_the_database_refuses_to_replace_or_empty_the_log(store: Store, url: str):
    await store.commit(noting("1", "2"))
    change = "TRUNCATE audit"
    if url.startswith("sqlite"):
        change = "INSERT OR REPLACE INTO audit SELECT * FROM audit"
    with pytest.raises(StoreError, match="append-only"):
        await put(store, Statement(change))
    assert await subjects(store) == ["1", "2"]


async def test_somebody_who_adds_a_record_by_hand_does_not_stop_the_log(store: Store):
    """Its number is taken; the log goes on behind it, and what is wrong is there to be found."""
    await store.commit(noting("1"))
    forged = Statement(
        "INSERT INTO audit (number, at, actor, action, result, detail, hash)"
        " VALUES (2, 0, 'forger', 'x.y', 'ok', ?, ?)",
        (b"{}", b"no hash"),
    )
    await put(store, forged)
    await store.commit(noting("3"))
    found = await audit.behind(store, 0, 10)
    assert [(row.number, row.subject) for row in found] == [(1, "1"), (2, None), (3, "3")]
    assert follow(GENESIS, found) == 1


async def test_what_is_cut_off_behind_the_daemons_back_leaves_a_gap(store: Store, url: str):
    """The writer knows where the log ended: a new record does not hide that others are gone."""
    await store.commit(noting("1", "2", "3"))
    if url.startswith("sqlite"):
        await put(store, Statement("DROP TRIGGER audit_loses_nothing"))
    else:
        await put(store, Statement("DROP TRIGGER audit_is_append_only ON audit"))
    await put(store, Statement("DELETE FROM audit WHERE number > 1"))
    await store.commit(noting("4"))
    found = await audit.behind(store, 0, 10)
    assert [row.number for row in found] == [1, 4]
