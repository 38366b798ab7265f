"""A long answer is put together once: reading it again costs no more than its text."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.services.texts import LONG
from agor.daemon.store import messages as rows
from agor.daemon.store.base import Statement, Store, Write
from agor.daemon.store.rows import MessageRow
from agor.protocol.api import Message, TaskStop
from agor.protocol.conversation import Conversation, read_event
from tests.integration.daemon.gate import Gate
from tests.integration.daemon.in_process import PATIENCE, Desk, desk_in, soon

EVENTS = 3000


class Reads:
    """Counts the events of feeds that are read from a store."""

    def __init__(self, store: Any) -> None:
        self._read = store.events
        self.events = 0
        store.events = self._count

    async def _count(self, *page: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = await self._read(*page)
        self.events += len(found)
        return found


async def messages(desk: Desk, session: str) -> list[Message]:
    found = await soon(desk.daemon.conversations.page(desk.who, session, None, 200))
    return found.items


async def compacted(desk: Desk) -> None:
    """Wait until the text of every long block is stored, and there is one at least."""
    stored = "SELECT COUNT(*) FROM message_texts"
    long = f"SELECT COUNT(*) FROM messages WHERE last_sequence - sequence >= {LONG}"
    async with asyncio.timeout(PATIENCE):
        while True:
            ((texts, blocks),) = await desk.daemon.store.read(f"SELECT ({stored}), ({long})")
            if texts and texts == blocks:
                return
            await asyncio.sleep(0.01)


async def feed(desk: Desk, session: str) -> list[bytes]:
    channel = await soon(desk.daemon.feed.open(desk.who, session, 0))
    bodies: list[bytes] = []
    while chunk := await soon(channel.read(len(bodies))):
        bodies += chunk.bodies
    return bodies


async def replayed(desk: Desk, session: str) -> list[Message]:
    """Put the conversation together as a client does that has every event."""
    conversation = Conversation()
    for body in await feed(desk, session):
        conversation.take(read_event(body))
    return conversation.messages


async def test_reading_a_long_answer_reads_none_of_its_deltas(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        script = [{"flood": {"events": EVENTS, "bytes": 3}}, {"text": "short"}]
        await desk.ended(session, await desk.prompt(session, script))
        await compacted(desk)
        before = await feed(desk, session)
        reads = Reads(desk.daemon.store)
        found = await messages(desk, session)
        # What is short is read from the feed.
        assert reads.events < LONG
        assert found[1].text == "x" * 3 * EVENTS
        assert found == await replayed(desk, session)
        assert await feed(desk, session) == before


async def test_an_answer_from_before_is_compacted_when_it_is_read(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        script = [{"flood": {"events": EVENTS, "bytes": 3}}]
        await desk.ended(session, await desk.prompt(session, script))
        await compacted(desk)
        # As a daemon leaves it that is killed before it came to it.
        await desk.daemon.store.commit(Write([Statement("DELETE FROM message_texts")]))
        first = await messages(desk, session)
        await compacted(desk)
        reads = Reads(desk.daemon.store)
        assert await messages(desk, session) == first
        assert reads.events < LONG
        assert first == await replayed(desk, session)


async def test_an_answer_that_was_cut_off_is_compacted_as_far_as_it_came(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        # A program that prints lines until it is stopped: its output is one block.
        script = [{"run": ["sh", "-c", "while :; do echo line; sleep 0.001; done"]}]
        task = await desk.prompt(session, script)
        seen = 0

        def enough(event: dict[str, Any]) -> bool:
            nonlocal seen
            seen += event["type"] == "block_delta"
            return bool(seen > 2 * LONG)

        await desk.until(session, enough)
        await soon(desk.daemon.task_stops.stop(desk.who, task, TaskStop()))
        await desk.ended(session, task)
        await compacted(desk)
        reads = Reads(desk.daemon.store)
        found = await messages(desk, session)
        assert reads.events < LONG
        assert found == await replayed(desk, session)


async def test_a_store_that_cannot_write_leaves_the_answer_as_it_was(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        gate = Gate(desk.daemon.store)
        gate.refuse("INSERT INTO message_texts")
        script = [{"flood": {"events": EVENTS, "bytes": 3}}]
        task = await desk.prompt(session, script)
        assert (await desk.ended(session, task)).status == "completed"
        await soon(gate.reached.wait())
        assert await messages(desk, session) == await replayed(desk, session)
        gate.lift()
        await messages(desk, session)
        await compacted(desk)
        reads = Reads(desk.daemon.store)
        await messages(desk, session)
        assert reads.events < LONG


async def test_a_block_that_cannot_be_compacted_is_in_nobody_s_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    get = rows.get

    async def broken(store: Store, number: int, sequence: int) -> MessageRow | None:
        if not number:
            raise ValueError("a bug of ours")
        return await get(store, number, sequence)

    monkeypatch.setattr(rows, "get", broken)
    async with desk_in(folder) as desk:
        desk.daemon.compactor.add(0, [1])
        session = await desk.session()
        script = [{"flood": {"events": EVENTS, "bytes": 3}}]
        await desk.ended(session, await desk.prompt(session, script))
        await compacted(desk)


async def test_a_deleted_session_leaves_no_text_behind(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        script = [{"flood": {"events": EVENTS, "bytes": 3}}]
        gate = Gate(desk.daemon.store)
        gate.hold("INSERT INTO message_texts")
        await desk.ended(session, await desk.prompt(session, script))
        await soon(gate.reached.wait())
        await soon(desk.daemon.sessions.delete(desk.who, session))
        gate.lift()
        await soon(gate.settled())
        assert await desk.daemon.store.read("SELECT * FROM message_texts") == []
