"""The feeds' events in the database."""

from __future__ import annotations

import random

import pytest

from agor.daemon.store import events
from agor.daemon.store.base import EventRun, Store, Write
from agor.errors import StoreError
from tests.store.examples import ODD, sequences, some_events

ANY = 10**9


async def test_events_come_back_byte_for_byte_in_order(store: Store):
    chance = random.Random(4)
    bodies = [chance.randbytes(chance.choice((0, 1, 2, 190, 5000))) for _ in range(300)]
    bodies += [b"", b"\x00", b"\x00\x00,", b",", b"\xff\xfe", ODD.encode()]
    numbered = list(enumerate(bodies, 1))
    await store.commit(Write(events=[EventRun(1, 1, bodies)]))
    assert await events.page(store, 1, 0, ANY, ANY) == numbered


async def test_a_page_begins_after_the_cursor_and_has_so_many_rows(store: Store):
    await store.commit(some_events(1, 1, 10))
    await store.commit(some_events(2, 1, 3))

    async def found(after: int, rows: int) -> list[int]:
        return [sequence for sequence, _ in await events.page(store, 1, after, rows, ANY)]

    assert await found(0, 4) == [1, 2, 3, 4]
    assert await found(4, 4) == [5, 6, 7, 8]
    assert await found(8, 4) == [9, 10]
    assert await found(10, 4) == []
    assert await events.page(store, 3, 0, 4, ANY) == []


async def test_a_page_ends_with_the_event_that_fills_it(store: Store):
    sizes = [10, 10, 10, 1000, 10]
    await store.commit(Write(events=[EventRun(1, 1, [b"x" * size for size in sizes])]))

    async def found(after: int, size: int) -> list[int]:
        return [sequence for sequence, _ in await events.page(store, 1, after, 100, size)]

    assert await found(0, 20) == [1, 2]
    assert await found(0, 21) == [1, 2, 3]
    assert await found(2, 11) == [3, 4]
    # One at least, however large: else nobody would ever get past it.
    assert await found(3, 1) == [4]
    assert await found(4, 1) == [5]


async def test_paging_through_gives_every_event_once(store: Store):
    chance = random.Random(5)
    for first in range(1, 2000, 100):
        bodies = [chance.randbytes(chance.randrange(400)) for _ in range(100)]
        await store.commit(Write(events=[EventRun(1, first, bodies)]))
    seen: list[int] = []
    while page := await events.page(store, 1, seen[-1] if seen else 0, 64, 10_000):
        assert sum(len(body) for _, body in page[:-1]) < 10_000
        seen += [sequence for sequence, _ in page]
    assert seen == list(range(1, 2001))


async def test_the_last_sequence_is_that_of_its_own_feed(store: Store):
    await store.commit(some_events(1, 1, 5))
    await store.commit(some_events(2, 1, 9))
    assert await events.last_sequence(store, 1) == 5
    assert await events.last_sequence(store, 3) == 0


@pytest.mark.parametrize("count", [1, 2, 3, 7, 511, 513, 2049, 5000])
async def test_any_number_of_events_can_be_written_at_once(store: Store, count: int):
    await store.commit(some_events(1, 1, count))
    assert await sequences(store, 1) == list(range(1, count + 1))


async def test_an_event_that_is_stored_again_does_no_harm(store: Store):
    await store.commit(some_events(1, 1, 5, b"same"))
    await store.commit(some_events(1, 4, 8, b"same"))
    assert await sequences(store, 1) == list(range(1, 9))


async def test_another_event_in_the_place_of_one_is_refused_and_not_swallowed(store: Store):
    await store.commit(some_events(1, 1, 5, b"first"))
    with pytest.raises(StoreError, match="event 5 of session number 1"):
        await store.commit(some_events(1, 5, 6, b"second"))
    assert await events.page(store, 1, 4, 10, ANY) == [(5, b"first")]
    assert store.available
