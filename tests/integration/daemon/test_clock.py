"""The machine's clock is set back: lists stay in order, and nothing takes less than no time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agor.daemon.services import stamps
from agor.daemon.services.people.api_tokens import ApiTokens
from agor.protocol.api import TaskStop
from agor.protocol.people import NewToken, NewUser
from tests.integration.daemon.in_process import Desk, desk_in, soon

ASK = {"tool": {"name": "Write", "input": {"path": "x"}, "output": "done", "ask": True}}
HOUR = 3600


class Clock:
    """The time of day, as this process sees it: as far off as a test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset = 0
        true_ns, true = time.time_ns, time.time
        monkeypatch.setattr(time, "time_ns", lambda: true_ns() + self.offset * 1_000_000_000)
        monkeypatch.setattr(time, "time", lambda: true() + self.offset)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def listed(desk: Desk) -> list[str]:
    """The sessions as they are listed, a few at a time."""
    found: list[str] = []
    cursor = None
    while True:
        page = await soon(desk.daemon.sessions.page(desk.who, None, None, cursor, 2))
        found += [each.session_id for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_sessions_are_listed_in_the_order_of_their_making(folder: Path, clock: Clock):
    made = []
    for _ in range(2):
        # The second daemon begins an hour before the first one ended, and remembers nothing.
        stamps.ids.__init__()  # type: ignore[misc]
        async with desk_in(folder) as desk:
            made += [await desk.session() for _ in range(3)]
            clock.offset -= HOUR
            made += [await desk.session() for _ in range(3)]
            assert await listed(desk) == made[::-1]
        clock.offset -= HOUR


async def test_tasks_are_listed_in_the_order_of_their_making(folder: Path, clock: Clock):
    async with desk_in(folder) as desk:
        session = await desk.session()
        made = []
        for _ in range(4):
            task_id = await desk.prompt(session, "x")
            made.append(task_id)
            await desk.ended(session, task_id)
            clock.offset -= HOUR
        page = await soon(desk.daemon.tasks.page(desk.who, session, None, None, 10))
        assert [each.task_id for each in page.items] == made[::-1]


async def test_a_task_takes_the_time_that_it_takes(folder: Path, clock: Clock):
    async with desk_in(folder) as desk:
        session = await desk.session()
        for step in (-HOUR, HOUR):
            task_id = await desk.prompt(session, [ASK])
            await desk.status(session, task_id, "awaiting_permission")
            found = await soon(desk.daemon.permissions.page(desk.who, None, "pending", None, 10))
            (asked,) = found.items
            clock.offset += step
            decided = await desk.decide(asked.permission_id, approved=True)
            task = await desk.ended(session, task_id)
            assert task.started_at is not None
            assert task.ended_at is not None
            assert decided.decided_at is not None
            assert task.created_at <= task.started_at <= task.ended_at
            assert decided.created_at <= decided.decided_at
            # The test itself takes less than that.
            assert task.ended_at - task.started_at < HOUR * 1000 / 2
            assert decided.decided_at - decided.created_at < HOUR * 1000 / 2


async def test_a_task_that_never_began_ends_no_earlier_than_it_was_made(folder: Path, clock: Clock):
    async with desk_in(folder) as desk:
        session = await desk.session()
        await desk.prompt(session, [ASK])
        await desk.asked(session)
        waiting = await desk.prompt(session, "x")
        clock.offset -= HOUR
        stopped = await soon(desk.daemon.task_stops.stop(desk.who, waiting, TaskStop()))
        assert stopped.ended_at is not None
        assert stopped.ended_at >= stopped.created_at


async def test_a_question_waits_no_longer_than_its_time(folder: Path, clock: Clock):
    async with desk_in(folder) as desk:
        await desk.session()
    # What was made before has a time that is an hour ahead of what comes now.
    clock.offset -= HOUR
    async with desk_in(folder, execution__permission_timeout_ms=50) as desk:
        session = await desk.session()
        task_id = await desk.prompt(session, [ASK])
        assert (await desk.ended(session, task_id)).status == "completed"


async def test_the_owner_of_the_home_stays_who_it_is(folder: Path, clock: Clock):
    async with desk_in(folder) as desk:
        owner = desk.who
        clock.offset -= HOUR
        await soon(desk.daemon.accounts.add(owner, NewUser(name="ben", role="owner")))
    async with desk_in(folder) as desk:
        assert desk.who.user_id == owner.user_id


async def test_tokens_are_listed_in_the_order_of_their_making(folder: Path, clock: Clock):
    async with desk_in(folder) as desk:
        tokens: ApiTokens = desk.daemon.api_tokens
        made = await soon(tokens.make(desk.who, NewToken(name="t", expires_at=None)))
        clock.offset -= HOUR
        later = await soon(tokens.make(desk.who, NewToken(name="u", expires_at=None)))
        page = tokens.page(desk.who, desk.who.user_id, None, 10)
        assert [each.token_id for each in page.items] == [later.token_id, made.token_id]
