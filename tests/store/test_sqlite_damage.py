"""A page of the file is damaged: a write that needs it is refused for good, and no other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agor.daemon.store.base import EventRun, Write
from agor.daemon.store.sqlite.store import SqliteStore
from agor.errors import StoreDamaged
from tests.contract.waiting import soon
from tests.store.examples import a_record, sequences, some_events

_PAGE = 4096


def bodies(session: int, count: int) -> list[bytes]:
    return [b"%d-%04d" % (session, number) * 20 for number in range(1, count + 1)]


def damage(path: Path, found: list[bytes]) -> None:
    """Damage the page that has all of these."""
    content = bytearray(path.read_bytes())
    (start,) = (
        start
        for start in range(0, len(content), _PAGE)
        if all(each in content[start : start + _PAGE] for each in found)
    )
    content[start : start + 8] = b"\xff" * 8
    path.write_bytes(content)


async def test_writes_of_the_same_group_that_do_not_need_the_page_are_stored(tmp_path: Path):
    path = tmp_path / "agor.db"
    store = SqliteStore(path)
    await store.open()
    one, two = bodies(1, 300), bodies(2, 300)
    await soon(store.commit(Write(events=[EventRun(1, 1, one), EventRun(2, 1, two)])))
    await store.close()
    damage(path, one[98:101])
    await store.open()
    outcomes = await soon(
        asyncio.gather(
            store.commit(Write(events=[EventRun(1, 100, one[99:100])])),
            store.commit(some_events(2, 301, 301)),
            return_exceptions=True,
        )
    )
    assert isinstance(outcomes[0], StoreDamaged)
    assert outcomes[1] is None
    assert store.available
    assert await sequences(store, 2) == list(range(1, 302))
    with pytest.raises(StoreDamaged):
        await soon(store.events(1, 0, 1000, 10**6))
    await store.close()


async def test_without_the_end_of_the_audit_log_only_writes_with_records_are_refused(
    tmp_path: Path,
):
    path = tmp_path / "agor.db"
    store = SqliteStore(path)
    await store.open()
    marks = [f"mark-{number:04d}" for number in range(300)]
    await soon(store.commit(Write(records=[a_record(mark) for mark in marks])))
    await store.close()
    damage(path, [marks[-1].encode(), b"Gr\xc3\xbc"])
    await store.open()
    outcomes = await soon(
        asyncio.gather(
            store.commit(some_events(1, 1, 1)),
            store.commit(some_events(2, 1, 1)._replace(records=[a_record()])),
            store.commit(some_events(3, 1, 1)),
            store.commit(Write(records=[a_record()])),
            return_exceptions=True,
        )
    )
    assert outcomes[0] is outcomes[2] is None
    assert isinstance(outcomes[1], StoreDamaged)
    assert isinstance(outcomes[3], StoreDamaged)
    assert store.available
    assert [await sequences(store, number) for number in (1, 2, 3)] == [[1], [], [1]]
    await store.close()
