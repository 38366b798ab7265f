"""Prompts: queued, run once each and in order, moved, stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.services.housekeeping import clean
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.stamps import now
from agor.daemon.store.base import Write
from agor.errors import Conflict, NotFound, PoolExhausted, Unprocessable
from agor.protocol.api import NewSession, SessionChange, TaskMove, TaskStop
from tests.contract.waiting import until
from tests.integration.daemon.in_process import desk_in, soon

#: The process in between gives what was said the time to leave.
SAY_AND_CRASH = [{"text": "a"}, {"run": ["true"]}, {"crash": 9}]
ASK = {"tool": {"name": "Write", "input": {"path": "x"}, "output": "done", "ask": True}}


async def test_a_prompt_runs_to_its_end_and_its_conversation_can_be_read_back(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        task = await desk.ended(session, await desk.prompt(session, [{"text": "Hello world"}]))
        assert (task.status, task.error, task.token_usage and task.token_usage.output) == (
            "completed", None, 2,
        )  # fmt: skip
        assert await desk.texts(session) == [
            ("user_message", '[{"text": "Hello world"}]'),
            ("text", "Hello world"),
        ]
        assert (await soon(desk.daemon.sessions.get(desk.who, session))).status == "idle"


async def test_prompts_sent_while_one_runs_wait_and_run_in_order(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        first = await desk.prompt(session, [ASK])
        asked = await desk.asked(session)
        second = await desk.prompt(session, "second")
        third = await desk.prompt(session, "third")
        assert [(await desk.task(t)).queue_position for t in (first, second, third)] == [None, 1, 2]
        await soon(desk.daemon.tasks.move(desk.who, third, TaskMove(queue_position=1)))
        assert [(await desk.task(t)).queue_position for t in (second, third)] == [2, 1]
        await desk.decide(asked.permission_id, approved=True)
        await desk.ended(session, second)
        spoken = [text for kind, text in await desk.texts(session) if kind == "text"]
        assert spoken == ["third", "second"]


async def test_a_waiting_prompt_can_be_taken_out_and_never_runs(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        await desk.prompt(session, [ASK])
        asked = await desk.asked(session)
        out = await desk.prompt(session, "out")
        last = await desk.prompt(session, "last")
        stopped = await soon(desk.daemon.task_stops.stop(desk.who, out, TaskStop(reason="not now")))
        assert (stopped.status, stopped.error and stopped.error.message) == ("stopped", "not now")
        await desk.decide(asked.permission_id, approved=True)
        await desk.ended(session, last)
        assert ("user_message", "out") not in await desk.texts(session)


async def test_stop_ends_a_task_with_all_that_it_started_and_says_so(folder: Path):
    script = [{"run": ["sh", "-c", "setsid nohup sleep 987 >/dev/null 2>&1 & echo $!; sleep 986"]}]
    async with desk_in(folder) as desk:
        session = await desk.session()
        task_id = await desk.prompt(session, script)
        told = await desk.until(
            session,
            lambda e: e["type"] == "block_delta" and not e["data"]["block_id"].endswith("-prompt"),
        )
        hidden = int(told["data"]["text"])
        answer = await soon(desk.daemon.task_stops.stop(desk.who, task_id, TaskStop()))
        assert answer.status == "stopping"
        task = await desk.ended(session, task_id)
        assert (task.status, task.survivors) == ("stopped", 0)
        with pytest.raises(ProcessLookupError):
            os.kill(hidden, 0)
        again = await desk.ended(session, await desk.prompt(session, "and on"))
        assert again.status == "completed"


async def test_a_stop_that_comes_too_late_is_refused_and_harms_nobody(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        done = (await desk.ended(session, await desk.prompt(session, "one"))).task_id
        running = await desk.prompt(session, [ASK])
        asked = await desk.asked(session)
        with pytest.raises(Conflict, match="completed already"):
            await soon(desk.daemon.task_stops.stop(desk.who, done, TaskStop()))
        await desk.decide(asked.permission_id, approved=True)
        assert (await desk.ended(session, running)).status == "completed"


async def test_a_task_whose_executor_dies_fails_with_the_signal_and_the_session_goes_on(
    folder: Path,
):
    async with desk_in(folder) as desk:
        session = await desk.session()
        task = await desk.ended(session, await desk.prompt(session, SAY_AND_CRASH))
        assert task.status == "failed"
        assert task.error is not None
        assert "SIGKILL" in task.error.message
        assert ("text", "a") in await desk.texts(session)
        assert desk.daemon.tokens.of_task(task.task_id) is None
        assert (await desk.ended(session, await desk.prompt(session, "b"))).status == "completed"


async def test_a_task_that_takes_too_long_times_out(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        prompt = await desk.prompt(session, [{"delay_ms": 60000}], timeout_ms=50)
        assert (await desk.ended(session, prompt)).status == "timed_out"


async def test_a_task_that_cannot_begin_fails_with_the_reason(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        desk.workspace.rmdir()
        task = await desk.ended(session, await desk.prompt(session, "x"))
        assert (task.status, task.error and task.error.code) == ("failed", "workspace_unreachable")
        desk.workspace.mkdir()
        assert (await desk.ended(session, await desk.prompt(session, "y"))).status == "completed"


async def test_an_archived_session_takes_no_prompt_until_it_is_taken_out_again(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        sessions = desk.daemon.sessions
        archived = await soon(sessions.change(desk.who, session, SessionChange(archived=True)))
        assert archived.status == "archived"
        with pytest.raises(Conflict, match="archived"):
            await desk.prompt(session, "x")
        await soon(sessions.change(desk.who, session, SessionChange(archived=False)))
        assert (await desk.ended(session, await desk.prompt(session, "y"))).status == "completed"


async def test_a_deleted_session_is_gone_with_all_that_was_said_in_it(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        task = await desk.ended(session, await desk.prompt(session, "x"))
        await soon(desk.daemon.sessions.delete(desk.who, session))
        with pytest.raises(NotFound):
            await desk.task(task.task_id)
        for table in ("events", "messages", "tasks", "tokens", "permission_requests"):
            found = await desk.daemon.store.read(f"SELECT COUNT(*) FROM {table}")
            assert found == [(0,)], table


async def test_who_comes_when_all_places_and_all_waiting_places_are_taken_is_told_so(folder: Path):
    async with desk_in(folder, execution__max_executors=1, execution__max_waiting=1) as desk:
        busy, waiting, third = [await desk.session() for _ in range(3)]
        await desk.prompt(busy, [ASK])
        asked = await desk.asked(busy)
        waits = await desk.prompt(waiting, "in turn")
        await desk.status(waiting, waits, "dispatching")
        # Before it waits for a place, its folder is looked at.
        pool: Any = desk.daemon.executors
        await until(lambda: pool._places.waiting == 1)
        with pytest.raises(PoolExhausted):
            await desk.prompt(third, "too much")
        await desk.decide(asked.permission_id, approved=False, reason="no")
        assert (await desk.ended(waiting, waits)).status == "completed"


async def test_a_task_that_waits_for_an_executor_can_be_stopped(folder: Path):
    async with desk_in(folder, execution__max_executors=1) as desk:
        busy, waiting = await desk.session(), await desk.session()
        await desk.prompt(busy, [ASK])
        await desk.asked(busy)
        waits = await desk.prompt(waiting, "in turn")
        await desk.status(waiting, waits, "dispatching")
        assert (
            await soon(desk.daemon.task_stops.stop(desk.who, waits, TaskStop()))
        ).status == "stopped"


async def test_the_direct_path_runs_the_same_task(folder: Path):
    async with desk_in(folder, execution__use_executor="false") as desk:
        session = await desk.session()
        task_id = await desk.prompt(session, [ASK, {"run": ["echo", "hi"]}])
        asked = await desk.asked(session)
        await desk.decide(asked.permission_id, approved=True)
        assert (await desk.ended(session, task_id)).status == "completed"
        assert ("tool_result", "hi\n") in await desk.texts(session)


async def test_what_nobody_can_ask_for_any_more_is_forgotten(folder: Path):
    async with desk_in(folder) as desk:
        store, receipts = desk.daemon.store, desk.daemon.receipts
        receipt = await receipts.begin(desk.who, "POST /sessions", "key", b"{}")
        assert isinstance(receipt, Receipt)
        session = await desk.session()
        await store.commit(Write([receipt.statement(201, TaskStop())]))
        await desk.ended(session, await desk.prompt(session, "x"))

        async def left() -> list[int]:
            counts = [await store.read(f"SELECT COUNT(*) FROM {t}") for t in ("receipts", "tokens")]
            return [count[0][0] for count in counts]

        await clean(store, now())
        assert await left() == [1, 1]
        await clean(store, now() + 8 * 24 * 3600 * 1000)
        assert await left() == [0, 0]


@pytest.mark.parametrize(
    ("workspace", "why"),
    [
        ("tmp", "not an absolute path"),
        ("/nowhere/at/all", "not a folder"),
        ("/etc/passwd", "not a folder"),
        ("/etc/passwd/x", "not a folder"),
        ("/" + "x" * 4000, "not a folder"),
    ],
)
async def test_a_session_needs_a_folder_that_is_there(folder: Path, workspace: str, why: str):
    async with desk_in(folder) as desk:
        new = NewSession(agentic_tool="scripted", workspace=workspace)
        with pytest.raises(Unprocessable, match=why):
            await soon(desk.daemon.sessions.create(desk.who, new))
