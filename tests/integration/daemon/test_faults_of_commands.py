"""A command that is cut off or not stored has happened wholly or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agor.daemon.services.receipts import Answered, Receipt
from agor.daemon.store.base import Statement, Write
from agor.errors import HandlerFailed, NotFound, StoreUnavailable, TokenRefused
from agor.protocol.api import TaskStop
from tests.integration.daemon.asker import Asker, acting, ask_for_key, keep
from tests.integration.daemon.gate import Gate
from tests.integration.daemon.in_process import Desk, desk_in, soon


async def delete_and_leave(desk: Desk, session: str) -> None:
    """Delete a session, and go away while that is on its way to the disk."""
    gate = Gate(desk.daemon.store)
    gate.hold("DELETE FROM sessions")
    deleting = asyncio.create_task(desk.daemon.sessions.delete(desk.who, session))
    await soon(gate.reached.wait())
    deleting.cancel()
    gate.lift()
    await asyncio.wait((deleting,))
    await soon(gate.settled())
    found = await desk.daemon.store.read("SELECT session_id FROM sessions")
    assert found == []


async def test_a_session_whose_deletion_nobody_waited_for_is_gone(folder: Path):
    async with desk_in(folder, acting()) as desk:
        session = await desk.session()
        await delete_and_leave(desk, session)
        with pytest.raises(NotFound):
            await soon(desk.daemon.sessions.get(desk.who, session))
        with pytest.raises(NotFound):
            await desk.prompt(session, "to a ghost")


async def test_tasks_of_no_session_do_not_keep_a_daemon_from_starting(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        _, params = await asker.task_of(desk)
        await desk.prompt(params.session_id, "waits")
        other = await desk.session()
        gone = Statement("DELETE FROM sessions WHERE session_id = ?", (params.session_id,))
        await soon(desk.daemon.store.commit(Write([gone])))
    async with desk_in(folder, acting()) as desk:
        found = await desk.daemon.store.read("SELECT prompt FROM tasks WHERE status = 'queued'")
        assert found == [("waits",)]
        done = await desk.ended(other, await desk.prompt(other, "x"))
        assert done.status == "completed"


async def test_a_prompt_that_was_refused_is_never_run(folder: Path):
    async with desk_in(folder, acting()) as desk:
        session = await desk.session()
        gate = Gate(desk.daemon.store)
        gate.refuse("INSERT INTO tasks")
        with pytest.raises(StoreUnavailable):
            await desk.prompt(session, "refused")
        gate.lift()
        done = await desk.ended(session, await desk.prompt(session, "taken"))
        assert done.status == "completed"
        assert [text for _, text in await desk.texts(session)] == ["taken"]


async def test_a_prompt_whose_sender_goes_away_is_run_nevertheless(folder: Path):
    async with desk_in(folder, acting()) as desk:
        session = await desk.session()
        gate = Gate(desk.daemon.store)
        gate.hold("INSERT INTO tasks")
        sending = asyncio.create_task(desk.prompt(session, "x"))
        await soon(gate.reached.wait())
        sending.cancel()
        gate.lift()
        await asyncio.wait((sending,))
        await desk.until(
            session, lambda e: e["type"] == "task" and e["data"]["status"] == "completed"
        )


async def test_a_use_of_a_token_that_was_not_stored_does_not_count(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make, execution__session_token_max_uses=1) as desk:
        executor, params = await asker.task_of(desk)
        await keep(desk)
        gate = Gate(desk.daemon.store)
        gate.refuse("UPDATE tokens SET uses")
        with pytest.raises(HandlerFailed, match="no space is left"):
            await ask_for_key(executor, params.session_token)
        gate.lift()
        await ask_for_key(executor, params.session_token)
        with pytest.raises(TokenRefused, match="used 1 times"):
            await ask_for_key(executor, params.session_token)


async def test_a_stop_that_is_repeated_under_a_key_keeps_its_answer(folder: Path):
    """Also if it is not the stop that began it."""
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        daemon, who = desk.daemon, desk.who
        _, params = await asker.task_of(desk)
        task, answer = params.task_id, asyncio.Event()
        run = daemon.runs.get(task)
        assert run is not None

        async def stop_slowly(*_: object) -> None:
            await answer.wait()

        run.environment.stop_task = stop_slowly  # type: ignore[union-attr, method-assign]
        assert (await soon(daemon.task_stops.stop(who, task, TaskStop()))).status == "stopping"
        receipt = await soon(daemon.receipts.begin(who, "stop", "key", b"{}"))
        assert isinstance(receipt, Receipt)
        told = await soon(daemon.task_stops.stop(who, task, TaskStop(), receipt))
        receipt.release()
        again = await soon(daemon.receipts.begin(who, "stop", "key", b"{}"))
        assert isinstance(again, Answered)
        assert (again.status, told.status) == (202, "stopping")
        answer.set()
        assert (await desk.ended(params.session_id, task)).status == "stopped"
