"""A session comes into being: stored whole or not at all, and from then on one to everybody."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agor.daemon.store.base import Write
from agor.errors import StoreUnavailable
from tests.integration.daemon.gate import Gate, mentions
from tests.integration.daemon.in_process import Desk, desk_in, soon

NEW = '"type":"session"'


async def listed(desk: Desk) -> list[str]:
    page = await soon(desk.daemon.sessions.page(desk.who, None, None, None, 10))
    return [session.session_id for session in page.items]


async def test_who_finds_a_session_before_its_maker_has_heard_of_it_has_the_same_one(folder: Path):
    async with desk_in(folder) as desk:
        store, stored, told = desk.daemon.store, asyncio.Event(), asyncio.Event()
        commit = store.commit

        async def tell_late(write: Write) -> None:
            await commit(write)
            if mentions(write, NEW):
                stored.set()
                await told.wait()

        store.commit = tell_late  # type: ignore[method-assign]
        making = asyncio.create_task(desk.session())
        await soon(stored.wait())
        [session_id] = await listed(desk)
        found = await soon(desk.daemon.lives.get(session_id))
        store.commit = commit  # type: ignore[method-assign]
        task_id = await desk.prompt(session_id, [{"text": "first"}])
        told.set()
        assert await soon(making) == session_id
        assert await soon(desk.daemon.lives.get(session_id)) is found
        assert (await desk.ended(session_id, task_id)).status == "completed"
        task_id = await desk.prompt(session_id, [{"text": "second"}])
        await desk.ended(session_id, task_id)
        assert [text for kind, text in await desk.texts(session_id) if kind == "text"] == [
            "first", "second",
        ]  # fmt: skip


async def test_a_session_that_could_not_be_stored_is_nowhere(folder: Path):
    async with desk_in(folder) as desk:
        gate = Gate(desk.daemon.store)
        gate.refuse(NEW)
        with pytest.raises(StoreUnavailable):
            await desk.session()
        assert await listed(desk) == []
        assert desk.daemon.lives.held() == []
        gate.lift()
        session_id = await desk.session()
        assert await listed(desk) == [session_id]


async def test_the_first_event_of_a_feed_is_the_session_itself(folder: Path):
    async with desk_in(folder) as desk:
        session_id = await desk.session(title="Mine")
        event = await desk.until(session_id, lambda event: event["type"] == "session")
        assert (event["sequence"], event["task_id"]) == (1, None)
        assert (event["data"]["session_id"], event["data"]["title"]) == (session_id, "Mine")
