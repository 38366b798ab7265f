"""Messages in the database."""

from __future__ import annotations

import msgspec

from agor.daemon.store import message_texts, messages
from agor.daemon.store.base import Store, Write
from tests.store.examples import ODD, a_message, put, some_events


async def the_page(store: Store, before: int | None = None, limit: int = 100):
    rows, _ = await messages.snapshot_page(store, 1, before, limit)
    return rows


async def test_a_message_comes_back_as_it_was_stored(store: Store):
    full = a_message(
        2, last_sequence=9, status="completed", reason="ÿ", tool_input=b"{}", length=3,
        is_error=True,
    )  # fmt: skip
    await put(store, messages.start(a_message(1)), messages.start(full))
    assert await the_page(store) == [full, a_message(1)]
    assert [row.is_error for row in await the_page(store)] == [True, False]


async def test_an_update_leaves_what_it_does_not_mention(store: Store):
    row = a_message(1, status="running", reason="because", tool_input=b'{"a":1}')
    await put(store, messages.start(row), messages.start(a_message(2)))

    async def change(**members) -> None:
        given = {"status": None, "reason": None, "tool_input": None, **members}
        await put(store, messages.update(1, 1, **given))

    await change()
    assert (await the_page(store))[1] == row
    await change(status="completed")
    await change(reason="therefore")
    await change(tool_input=b'{"a":2}')
    changed = msgspec.structs.replace(
        row, status="completed", reason="therefore", tool_input=b'{"a":2}'
    )
    assert await the_page(store) == [a_message(2), changed]


async def test_open_blocks_are_those_of_the_task_that_are_not_complete(store: Store):
    await put(
        store,
        *(messages.start(a_message(sequence)) for sequence in (3, 1, 2)),
        messages.start(a_message(4, task_id="task-2")),
        messages.start(a_message(1, session_number=2)),
        messages.complete(1, 2, last_sequence=7, length=5, is_error=True),
    )
    assert await messages.open_blocks(store, 1, "task-1") == [a_message(1), a_message(3)]
    done = msgspec.structs.replace(a_message(2), last_sequence=7, length=5, is_error=True)
    assert done in await the_page(store)


async def test_pages_go_from_the_newest_to_the_oldest(store: Store):
    await put(store, *(messages.start(a_message(sequence)) for sequence in range(1, 11)))
    assert [row.sequence for row in await the_page(store, None, 4)] == [10, 9, 8, 7]
    assert [row.sequence for row in await the_page(store, 7, 4)] == [6, 5, 4, 3]
    assert [row.sequence for row in await the_page(store, 3, 4)] == [2, 1]
    assert await the_page(store, 1, 4) == []


async def test_a_page_says_how_far_the_feed_had_come_at_that_moment(store: Store):
    assert await messages.snapshot_page(store, 1, None, 10) == ([], 0)
    for number in range(1, 40, 2):
        block = messages.start(a_message(number))
        await store.commit(Write([block], some_events(1, number, number + 1).events))
        rows, sequence = await messages.snapshot_page(store, 1, None, 100)
        assert (rows[0].sequence, sequence) == (number, number + 1)


async def test_a_compacted_text_comes_back_as_it_was_and_is_never_replaced(store: Store):
    odd = f"{ODD}\x00\ud800"
    await put(
        store,
        messages.start(a_message(1, last_sequence=9)),
        message_texts.put(1, 1, odd, 7),
        message_texts.put(1, 1, "another", 8),
    )
    assert await message_texts.of(store, 1, [1, 2]) == {1: (odd, 7)}
    assert await message_texts.sizes(store, 1, [1, 2]) == {
        1: len(odd.encode(errors="surrogatepass"))
    }


async def test_no_text_is_stored_for_a_block_that_is_gone_or_goes_on(store: Store):
    await put(
        store,
        messages.start(a_message(1)),
        message_texts.put(1, 1, "goes on", 7),
        message_texts.put(1, 2, "gone", 4),
    )
    assert await message_texts.of(store, 1, [1, 2]) == {}
