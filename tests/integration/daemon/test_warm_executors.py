"""A prompt for an executor that waits begins with the commit that takes it in, or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agor.errors import StoreUnavailable
from tests.integration.daemon.gate import DISPATCHING, RUNNING, Gate
from tests.integration.daemon.in_process import Desk, desk_in, soon


async def idle(desk: Desk) -> None:
    """Wait until the one executor there is has nothing to do."""

    async def look() -> None:
        while [each.state for each in desk.daemon.executors.describe()] != ["idle"]:
            await asyncio.sleep(0)

    await soon(look())


async def warm_session(desk: Desk) -> str:
    session = await desk.session()
    task = await desk.prompt(session, [{"text": "I am awake."}])
    await desk.ended(session, task)
    await idle(desk)
    return session


async def states_of(desk: Desk, session: str, task: str) -> list[str]:
    """Tell the states of a task that has ended, as the feed tells them."""
    states: list[str] = []
    async with desk.following(session) as events:
        async for event in events:
            if event["type"] == "task" and event["task_id"] == task:
                states.append(event["data"]["status"])
                if states[-1] == "completed":
                    return states
    raise AssertionError("the feed ended")


async def test_no_commit_is_waited_for_but_the_one_that_takes_it_in(folder: Path):
    async with desk_in(folder) as desk:
        session = await warm_session(desk)
        gate = Gate(desk.daemon.store)
        gate.refuse(DISPATCHING)
        task = await desk.prompt(session, [{"text": "At once."}])
        assert (await desk.ended(session, task)).status == "completed"
        assert not gate.reached.is_set()
        # Whoever follows sees what is always seen.
        told = await soon(states_of(desk, session, task))
        assert told == ["queued", "dispatching", "running", "completed"]
        assert (await desk.texts(session))[-2:] == [
            ("user_message", '[{"text": "At once."}]'),
            ("text", "At once."),
        ]


async def test_the_executor_is_told_of_nothing_that_is_not_durable(folder: Path):
    async with desk_in(folder) as desk:
        session = await warm_session(desk)
        gate = Gate(desk.daemon.store)
        gate.hold(RUNNING)
        prompt = asyncio.create_task(desk.prompt(session, [{"text": "At once."}]))
        await soon(gate.reached.wait())
        (run,) = desk.daemon.runs.all()
        assert run.environment is not None
        # Whatever was sent to it before is in front of this, and answered before it.
        assert await soon(run.environment.is_healthy())
        assert run.taken == 0
        assert not prompt.done()
        gate.lift()
        assert (await desk.ended(session, await soon(prompt))).status == "completed"
        assert run.taken > 0


async def test_of_one_that_cannot_be_stored_nothing_stays(folder: Path):
    async with desk_in(folder) as desk:
        session = await warm_session(desk)
        gate = Gate(desk.daemon.store)
        gate.refuse(RUNNING)
        with pytest.raises(StoreUnavailable):
            await desk.prompt(session, [{"text": "Nobody will hear this."}])
        await idle(desk)
        assert desk.daemon.runs.all() == []
        gate.lift()
        task = await desk.prompt(session, [{"text": "Here I am."}])
        assert (await desk.ended(session, task)).status == "completed"
        said = [text for kind, text in await desk.texts(session) if kind == "text"]
        assert said == ["I am awake.", "Here I am."]


async def test_those_behind_it_wait_for_their_turn(folder: Path):
    async with desk_in(folder) as desk:
        session = await warm_session(desk)
        tasks = [await desk.prompt(session, [{"text": str(number)}]) for number in range(5)]
        for task in tasks:
            assert (await desk.ended(session, task)).status == "completed"
        said = [text for kind, text in await desk.texts(session) if kind == "text"]
        assert said == ["I am awake.", *"01234"]
