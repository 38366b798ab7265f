"""What one person or one executor can have the daemon hold, send and store has bounds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from agor.daemon.services.permissions import permissions
from agor.daemon.services.views import PAGE_BYTES
from agor.errors import InvalidParams
from agor.protocol.api import Permission
from agor.protocol.methods import REQUEST_PERMISSION, ExecutePromptParams
from tests.integration.daemon.asker import Asker, question
from tests.integration.daemon.hostile import Hostile
from tests.integration.daemon.in_process import Desk, desk_in, soon


async def test_a_prompt_tells_of_itself_only_however_many_wait(folder: Path):
    go_on = asyncio.Event()

    async def wait(executor: Hostile, params: ExecutePromptParams) -> None:
        await go_on.wait()
        executor.end(params, 1)

    async with desk_in(folder, lambda: Hostile(wait)) as desk:
        session = await desk.session()
        tasks = [await desk.prompt(session, "x") for _ in range(50)]
        go_on.set()
        await desk.ended(session, tasks[-1])
        found = await desk.daemon.store.read("SELECT body FROM events ORDER BY sequence")
        events = [msgspec.json.decode(body) for (body,) in found]
        for task in tasks:
            told = [event["data"]["status"] for event in events
                    if event["type"] == "task" and event["task_id"] == task]  # fmt: skip
            assert told == ["queued", "dispatching", "running", "completed"]


async def all_pending(desk: Desk) -> list[Permission]:
    """Read all open questions, in answers of a bounded size."""
    found: list[Permission] = []
    cursor = None
    while True:
        page = await soon(desk.daemon.permissions.page(desk.who, None, "pending", cursor, 200))
        assert len(msgspec.json.encode(page)) < PAGE_BYTES * 1.1
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_the_open_questions_of_a_task_have_a_bound_in_bytes(folder: Path):
    size = permissions._MOST_BYTES // 4
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        executor, params = await asker.task_of(desk)
        other, others = await asker.task_of(desk)

        def ask(who: Hostile, task: ExecutePromptParams, number: int) -> asyncio.Task[object]:
            large = question(task, request_id=str(number), tool_input={"x": "y" * (size - 8)})
            return asyncio.create_task(who.peer.call(REQUEST_PERMISSION, large, timeout=None))

        calls = [ask(executor, params, number) for number in range(4)]
        async with asyncio.timeout(20):
            while len(await all_pending(desk)) < 4:
                await asyncio.sleep(0.001)
        with pytest.raises(InvalidParams, match="open questions"):
            await soon(ask(executor, params, 4))
        # That is nobody else's loss, and one that is answered makes room.
        calls.append(ask(other, others, 0))
        async with asyncio.timeout(20):
            while len(found := await all_pending(desk)) < 5:
                await asyncio.sleep(0.001)
        mine = next(each for each in found if each.task_id == params.task_id)
        await desk.decide(mine.permission_id, approved=True)
        calls.append(ask(executor, params, 5))
        async with asyncio.timeout(20):
            while len(found := await all_pending(desk)) < 5:
                await asyncio.sleep(0.001)
        for each in found:
            await desk.decide(each.permission_id, approved=True)
        await soon(asyncio.gather(*calls))


async def test_the_open_questions_of_a_task_have_a_bound_in_number(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        executor, params = await asker.task_of(desk)
        calls = {
            asyncio.create_task(
                executor.peer.call(
                    REQUEST_PERMISSION, question(params, request_id=str(number)), timeout=None
                )
            )
            for number in range(permissions._MOST_PENDING + 1)
        }
        done, waiting = await soon(asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED))
        (refused,) = done
        with pytest.raises(Exception, match="questions of this task are open already"):
            await refused
        assert len(waiting) == permissions._MOST_PENDING
        executor.end(params, 1)
        await desk.ended(params.session_id, params.task_id)
        answers = await soon(asyncio.gather(*waiting))
        assert not any(answer.approved for answer in answers)
