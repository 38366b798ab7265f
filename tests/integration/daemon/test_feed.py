"""The feed: numbered without a gap, told after it is stored, the same for slow and fast readers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.services.line import Entry, Line
from agor.daemon.store.base import Statement, Store, Write
from agor.errors import Conflict, StoreError, StoreUnavailable
from tests.integration.daemon.in_process import Reader, desk_in, soon


async def test_who_follows_from_any_cursor_gets_the_rest_and_nothing_twice(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        await desk.ended(session, await desk.prompt(session, "one two three four five"))
        channel = await desk.daemon.feed.open(desk.who, session, 0)
        last = channel.line.committed
        for after in range(last + 1):
            reader = Reader(after)
            running = asyncio.create_task(reader.run(channel))
            events = reader.events()
            got = [(await soon(anext(events)))["sequence"] for _ in range(last - after)]
            assert got == list(range(after + 1, last + 1))
            assert reader._queue.empty()
            running.cancel()


async def test_a_reader_that_is_slow_now_and_then_misses_nothing(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        channel = await desk.daemon.feed.open(desk.who, session, 0)
        reader = Reader(0)
        running = asyncio.create_task(reader.run(channel))
        task_id = await desk.prompt(session, [{"flood": {"events": 3000, "bytes": 10}}])
        events = reader.events()
        sequences: list[int] = []
        event: dict[str, Any] = {}
        while not (event.get("type") == "task" and event["data"]["status"] == "completed"):
            event = await soon(anext(events))
            sequences.append(event["sequence"])
            # Every hundredth event it falls behind, for as long as others get ahead.
            reader.slow = len(sequences) % 100 == 0
            if reader.slow:
                asyncio.get_running_loop().call_later(0.005, reader.hurry)
        assert sequences == list(range(1, len(sequences) + 1))
        assert len(sequences) > 3000
        assert (await desk.task(task_id)).status == "completed"
        running.cancel()


class Closed(Reader):
    """One whose connection has ended, and nobody has noticed yet."""

    def write(self, data: bytes) -> None:
        raise RuntimeError("unable to perform operation: the handler is closed")


async def test_those_after_one_whose_connection_is_closed_are_told_all_the_same(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        channel = await desk.daemon.feed.open(desk.who, session, 0)
        begin = channel.line.committed
        readers = [Reader(begin), Closed(begin), Closed(begin), Reader(begin)]
        spelling = readers[0].spelling
        for reader in readers:
            # Of one kind, so that all of them are told together.
            reader.spelling = spelling
        following = [asyncio.create_task(reader.run(channel)) for reader in readers]
        while len(channel.followers) < len(readers):
            await asyncio.sleep(0)
        await desk.ended(session, await desk.prompt(session, "one two three"))
        last = channel.line.committed
        for reader in (readers[0], readers[-1]):
            events = reader.events()
            got = [(await soon(anext(events)))["sequence"] for _ in range(last - begin)]
            assert got == list(range(begin + 1, last + 1))
        for task in following:
            task.cancel()


async def test_a_cursor_beyond_the_end_is_refused(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        with pytest.raises(Conflict, match="after=99 is beyond the end of this feed, which is 1"):
            await desk.daemon.feed.open(desk.who, session, 99)


async def test_the_feed_of_a_deleted_session_ends(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        channel = await desk.daemon.feed.open(desk.who, session, 0)
        running = asyncio.create_task(Reader(0).run(channel))
        await desk.daemon.sessions.delete(desk.who, session)
        await soon(running)


# ── when the store cannot write ──────────────────────────────────────────────────────────────


class Moody:
    """A store that refuses to write when a test says so; all else is the real one's."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.refuses = False
        self.tried = asyncio.Event()

    async def commit(self, write: Write) -> None:
        self.tried.set()
        if self.refuses:
            raise StoreUnavailable("the disk is full")
        await self._store.commit(write)

    def __getattr__(self, name: str):
        return getattr(self._store, name)


async def test_what_is_patient_keeps_its_place_while_the_store_cannot_write(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        number = (await desk.daemon.lives.get(session)).row.number
        store, told = Moody(desk.daemon.store), []
        line = Line(number, 1, store, lambda first, bodies: told.append((first, len(bodies))))
        store.refuses = True
        patient, hasty, later = Entry(patient=True), Entry(), Entry(patient=True)
        for entry, word in ((patient, "a"), (hasty, "b"), (later, "c")):
            entry.tell("log", None, {"word": word})
            line.append(entry)
        with pytest.raises(StoreUnavailable):
            await soon(hasty.done)
        assert told == []
        store.refuses = False
        assert await soon(patient.done) == 2
        assert await soon(later.done) == 3
        rows = await desk.daemon.store.read(
            "SELECT body FROM events WHERE session_number = ? AND sequence > 1 ORDER BY sequence",
            (number,),
        )
        assert [json.loads(body)["data"]["word"] for (body,) in rows] == ["a", "c"]
        assert [json.loads(body)["sequence"] for (body,) in rows] == [2, 3]


async def test_at_the_end_of_the_daemon_nobody_waits_for_a_store_that_cannot_write(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        number = (await desk.daemon.lives.get(session)).row.number
        store = Moody(desk.daemon.store)
        store.refuses = True
        line = Line(number, 1, store, lambda *_: None)
        entry = Entry(patient=True)
        entry.tell("log", None, {})
        line.append(entry)
        await soon(store.tried.wait())
        line.give_up()
        with pytest.raises(StoreUnavailable):
            await soon(entry.done)
        await soon(line.flushed())


async def test_an_entry_that_cannot_be_stored_fails_alone(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        number = (await desk.daemon.lives.get(session)).row.number
        told: list[tuple[int, int]] = []
        line = Line(
            number, 1, desk.daemon.store, lambda first, bodies: told.append((first, len(bodies)))
        )
        poison = Statement("INSERT INTO nowhere VALUES (?)", (1,))
        before, bad, after = Entry(), Entry([poison], patient=True), Entry(patient=True)
        for entry in (before, bad, after):
            entry.tell("log", None, {})
            line.append(entry)
        assert await soon(before.done) == 2
        with pytest.raises(StoreError):
            await soon(bad.done)
        assert await soon(after.done) == 3
        assert told == [(2, 1), (3, 1)]
