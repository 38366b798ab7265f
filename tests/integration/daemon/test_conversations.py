"""Conversations are read back in pages that fit into one answer."""

from __future__ import annotations

from pathlib import Path

import msgspec

from agor.protocol.api import Message
from agor.protocol.conversation import LONGEST_TEXT
from tests.integration.daemon.in_process import Desk, desk_in, soon

#: Characters of the texts of one answer; JSON needs a little more.
PAGE = 8_000_000


async def pages(desk: Desk, session: str, limit: int) -> list[list[Message]]:
    """Read a conversation from its end to its beginning."""
    found: list[list[Message]] = []
    cursor = None
    while True:
        page = await soon(desk.daemon.conversations.page(desk.who, session, cursor, limit))
        assert len(msgspec.json.encode(page)) < PAGE * 1.1
        found.append(page.items)
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_long_texts_make_a_page_short_and_paging_gives_all_of_them(folder: Path):
    blocks, pieces, size = 20, 4, LONGEST_TEXT // 4
    async with desk_in(folder) as desk:
        session = await desk.session()
        script = [{"flood": {"events": pieces, "bytes": size}}] * blocks
        task = await desk.ended(session, await desk.prompt(session, script))
        assert task.status == "completed"
        found = await pages(desk, session, 200)
        assert len(found) > 1
        texts = [message for page in reversed(found) for message in page if message.kind == "text"]
        assert [len(message.text) for message in texts] == [pieces * size] * blocks
        sequences = [message.sequence for message in texts]
        assert sequences == sorted(set(sequences))


async def test_a_text_that_is_too_long_is_cut_and_says_how_long_it_is(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        pieces, size = 5, LONGEST_TEXT // 4
        script = [{"flood": {"events": pieces, "bytes": size}}, {"text": "end"}]
        await desk.ended(session, await desk.prompt(session, script))
        ((_, long, short),) = await pages(desk, session, 200)
        assert (len(long.text), long.length) == (LONGEST_TEXT, pieces * size)
        assert short.text == "end"


async def test_short_pages_give_the_same_conversation_as_long_ones(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        script = [{"text": f"word{number}"} for number in range(10)]
        for _ in range(2):
            await desk.ended(session, await desk.prompt(session, script))
        (whole,) = await pages(desk, session, 200)
        assert len(whole) == 22
        for limit in (1, 3, 21):
            found = await pages(desk, session, limit)
            assert all(len(page) == limit for page in found[:-1])
            assert [message for page in reversed(found) for message in page] == whole
