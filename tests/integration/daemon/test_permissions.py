"""Permission requests: durable, answered once, by a person or by their time-out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agor.errors import Conflict, NotFound
from agor.protocol.api import TaskStop
from tests.integration.daemon.in_process import desk_in, soon

ASK = {"tool": {"name": "Write", "input": {"path": "x"}, "output": "done", "ask": True}}


async def test_a_tool_runs_only_after_a_yes(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        task_id = await desk.prompt(session, [ASK])
        asked = await desk.asked(session)
        assert (asked.tool_name, asked.tool_input, asked.status) == (
            "Write", {"path": "x"}, "pending",
        )  # fmt: skip
        assert (await desk.task(task_id)).status == "awaiting_permission"
        decided = await desk.decide(asked.permission_id, approved=True, reason="fine")
        assert (decided.status, decided.decided_by) == ("approved", desk.who.user_id)
        assert (await desk.ended(session, task_id)).status == "completed"
        assert ("tool_result", "done") in await desk.texts(session)


async def test_a_no_reaches_the_agent_with_its_reason(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        task_id = await desk.prompt(session, [ASK])
        asked = await desk.asked(session)
        await desk.decide(asked.permission_id, approved=False, reason="not in this folder")
        await desk.ended(session, task_id)
        assert ("tool_result", "not in this folder") in await desk.texts(session)


async def test_a_changed_input_reaches_the_agent_and_the_conversation(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        task_id = await desk.prompt(session, [ASK])
        asked = await desk.asked(session)
        await desk.decide(asked.permission_id, approved=True, updated_input={"path": "y"})
        await desk.ended(session, task_id)
        page = await desk.daemon.conversations.page(desk.who, session, None, 50)
        uses = [message for message in page.items if message.kind == "tool_use"]
        assert [use.tool_input for use in uses] == [{"path": "y"}]


async def test_of_many_answers_at_once_one_counts(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        task_id = await desk.prompt(session, [ASK])
        asked = await desk.asked(session)
        answers = await asyncio.gather(
            *(desk.decide(asked.permission_id, approved=n % 2 == 0) for n in range(10)),
            return_exceptions=True,
        )
        won = [answer for answer in answers if not isinstance(answer, BaseException)]
        assert len(won) == 1
        assert all(isinstance(a, Conflict) for a in answers if isinstance(a, BaseException))
        await desk.ended(session, task_id)
        spoken = ("tool_result", "done") in await desk.texts(session)
        assert spoken == (won[0].status == "approved")


async def test_an_answer_to_nothing_is_not_found(folder: Path):
    async with desk_in(folder) as desk:
        with pytest.raises(NotFound):
            await desk.decide("01a1e227-890b-702a-bc46-85ffcc56a09e", approved=True)


async def test_without_an_answer_the_tool_does_not_run(folder: Path):
    async with desk_in(folder, execution__permission_timeout_ms=50) as desk:
        session = await desk.session()
        task_id = await desk.prompt(session, [ASK])
        asked = await desk.asked(session)
        assert (await desk.ended(session, task_id)).status == "completed"
        assert ("tool_result", "done") not in await desk.texts(session)
        late = await soon(desk.daemon.permissions.get(desk.who, asked.permission_id))
        assert late.status == "timed_out"
        with pytest.raises(Conflict, match="timed out"):
            await desk.decide(asked.permission_id, approved=True)


async def test_a_question_ends_with_its_task(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        task_id = await desk.prompt(session, [ASK])
        asked = await desk.asked(session)
        await soon(desk.daemon.task_stops.stop(desk.who, task_id, TaskStop()))
        await desk.ended(session, task_id)
        found = await soon(desk.daemon.permissions.page(desk.who, None, "pending", None, 10))
        assert found.items == []
        with pytest.raises(Conflict, match="task has ended"):
            await desk.decide(asked.permission_id, approved=True)


async def test_questions_are_listed_in_pages(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        task_id = await desk.prompt(session, [ASK, ASK, ASK])
        seen: set[str] = set()
        for _ in range(3):
            event = await desk.until(
                session,
                lambda e: e["type"] == "permission" and e["data"]["permission_id"] not in seen,
            )
            seen.add(event["data"]["permission_id"])
            await desk.decide(event["data"]["permission_id"], approved=True)
        await desk.ended(session, task_id)
        permissions = desk.daemon.permissions
        first = await soon(permissions.page(desk.who, None, None, None, 2))
        second = await soon(permissions.page(desk.who, None, None, first.next_cursor, 2))
        assert (len(first.items), len(second.items), second.next_cursor) == (2, 1, None)
        ids = [item.permission_id for item in (*first.items, *second.items)]
        assert set(ids) == seen
