"""Writes that fail at a chosen moment: nothing that was taken is lost, and the daemon can end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agor.config import load
from agor.errors import StoreUnavailable
from agor.home import Home
from tests.integration.daemon.asker import Asker, acting, nothing, question
from tests.integration.daemon.gate import DISPATCHING, RUNNING, Gate, fail_once
from tests.integration.daemon.in_process import PATIENCE, DaemonWith, Desk, desk_in, soon

ASK = [{"tool": {"name": "Write", "input": {"path": "x"}, "output": "done", "ask": True}}]


async def check_ends(work: asyncio.Task[Any], gate: Gate) -> None:
    """Something comes to its end while the gate is shut; if not, the test still does."""
    ended, _ = await asyncio.wait((work,), timeout=PATIENCE)
    gate.lift()
    await asyncio.wait((work,))
    assert ended, "it has to wait for the database"


async def leave_in_outage(folder: Path, moment: str) -> tuple[str, str]:
    """Have a daemon end while it cannot write, when a task was about to become this."""
    shut: asyncio.Future[Gate] = asyncio.get_running_loop().create_future()

    async def live() -> tuple[str, str]:
        async with desk_in(folder, acting(nothing), daemon__stop_timeout_ms=1000) as desk:
            session = await desk.session()
            gate = Gate(desk.daemon.store)
            gate.refuse(moment)
            task = await desk.prompt(session, "x")
            await soon(gate.reached.wait())
            gate.refuse()
            shut.set_result(gate)
        return session, task

    life = asyncio.create_task(live())
    await asyncio.wait((life, shut), return_when=asyncio.FIRST_COMPLETED)
    if shut.done():
        await check_ends(life, shut.result())
    return await life


@pytest.mark.parametrize("moment", [DISPATCHING, RUNNING])
async def test_a_daemon_ends_while_it_cannot_write_and_the_next_one_runs_the_task(
    folder: Path, moment: str
):
    session, task = await leave_in_outage(folder, moment)
    async with desk_in(folder, acting()) as desk:
        assert (await desk.ended(session, task)).status == "completed"


async def test_a_daemon_that_starts_while_it_cannot_write_can_be_ended(folder: Path):
    session, task = await leave_in_outage(folder, RUNNING)
    home = Home(folder / "home")
    daemon = DaemonWith(load(home.folder, {}), home)
    gate = Gate(daemon.store)
    gate.refuse("'queued'")

    async def live() -> None:
        async with daemon.working():
            raise AssertionError("it cannot have put the task back")

    life = asyncio.create_task(live())
    await soon(gate.reached.wait())
    life.cancel()
    await check_ends(life, gate)
    with pytest.raises((asyncio.CancelledError, StoreUnavailable)):
        await life
    async with desk_in(folder, acting()) as desk:
        assert (await desk.ended(session, task)).status == "completed"


async def test_a_prompt_that_was_taken_before_an_outage_is_run_after_it(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        gate = Gate(desk.daemon.store)
        gate.refuse("INSERT INTO executors")
        task = await desk.prompt(session, "x")
        await soon(gate.reached.wait())
        assert (await desk.task(task)).status == "dispatching"
        gate.lift()
        ended = await desk.ended(session, task)
        assert ended.status == "completed", ended.error


async def test_a_question_in_an_outage_of_reads_is_asked_after_it(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        failed = fail_once(
            desk.daemon.store, "read", StoreUnavailable("the server is gone"),
            lambda sql, *_: "request_id = ?" in sql,
        )  # fmt: skip
        task = await desk.prompt(session, ASK)
        asked = await desk.asked(session)
        assert failed.is_set()
        await desk.decide(asked.permission_id, approved=True)
        assert (await desk.ended(session, task)).status == "completed"
        assert ("tool_result", "done") in await desk.texts(session)


async def pending(desk: Desk) -> list[str]:
    found = await soon(desk.daemon.permissions.page(desk.who, None, "pending", None, 10))
    return [each.permission_id for each in found.items]


async def test_a_question_that_was_cut_off_in_an_outage_is_asked_again_and_not_answered_unasked(
    folder: Path,
):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        _, params = await asker.task_of(desk)
        run = desk.daemon.runs.get(params.task_id)
        assert run is not None
        gate = Gate(desk.daemon.store)
        gate.refuse("INSERT INTO permission_requests")
        ask = desk.daemon.permissions.ask
        cut_off = asyncio.create_task(ask(run, question(params)))
        await soon(gate.reached.wait())
        # As the peer does when its connection is cut.
        cut_off.cancel()
        await check_ends(cut_off, gate)
        with pytest.raises((asyncio.CancelledError, StoreUnavailable)):
            await cut_off
        await soon(run.live.channel.line.flushed())
        assert await pending(desk) == []
        again = asyncio.create_task(ask(run, question(params)))
        asked = await desk.asked(params.session_id)
        assert await pending(desk) == [asked.permission_id]
        assert not again.done()
        await desk.decide(asked.permission_id, approved=True)
        assert (await soon(again)).approved


async def test_a_question_that_was_cut_off_while_it_was_stored_is_the_same_question(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        _, params = await asker.task_of(desk)
        run = desk.daemon.runs.get(params.task_id)
        assert run is not None
        gate = Gate(desk.daemon.store)
        gate.hold("INSERT INTO permission_requests")
        ask = desk.daemon.permissions.ask
        cut_off = asyncio.create_task(ask(run, question(params)))
        await soon(gate.reached.wait())
        cut_off.cancel()
        gate.lift()
        await asyncio.wait((cut_off,))
        asked = await desk.asked(params.session_id)
        again = asyncio.create_task(ask(run, question(params)))
        await desk.decide(asked.permission_id, approved=False, reason="no")
        assert (await soon(again)).reason == "no"
        assert await pending(desk) == []
