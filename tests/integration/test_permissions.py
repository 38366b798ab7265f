"""A tool that needs permission: asked, answered, withdrawn, and asked again after a disconnect."""

from __future__ import annotations

import asyncio

import pytest

from agor.errors import Disconnected, PermissionDenied
from agor.protocol.events import BlockComplete, BlockDelta, BlockStart, BlockUpdate, Status
from agor.protocol.methods import RequestPermissionParams, RequestPermissionResult
from tests.integration.daemon_side import TOKEN, Daemon, daemon, new_task_id, soon
from tests.integration.wire import prompt, wire

WRITE = {"tool": {"name": "Write", "input": {"path": "a.py"}, "output": "written", "ask": True}}


def say_yes(_: RequestPermissionParams) -> RequestPermissionResult:
    return RequestPermissionResult(approved=True)


def updates(side: Daemon, task: str) -> list[str | None]:
    return [update.status for update in side.of_kind(task, BlockUpdate)]


async def test_the_question_names_the_task_the_tool_and_its_input(side):
    side.decide = say_yes
    task = new_task_id()
    await side.prompt([WRITE, WRITE], task)
    first, second = side.questions
    assert (first.session_token, first.task_id) == (TOKEN, task)
    assert (first.tool_name, first.tool_input) == ("Write", {"path": "a.py"})
    uses = [start for start in side.of_kind(task, BlockStart) if start.kind == "tool_use"]
    assert [first.tool_use_id, second.tool_use_id] == [use.tool_use_id for use in uses]
    assert first.request_id != second.request_id


async def test_an_allowed_tool_runs(side):
    side.decide = say_yes
    task = new_task_id()
    assert (await side.prompt([WRITE], task)).status == "completed"
    assert updates(side, task) == ["awaiting_permission", "running", "completed"]
    states = [status.state for status in side.of_kind(task, Status)]
    assert states == ["started", "awaiting_permission", "running"]
    assert side.text(task) == "written"


async def test_a_denied_tool_does_not_run_the_reason_is_told_and_the_script_goes_on(side):
    side.decide = lambda _: RequestPermissionResult(approved=False, reason="not in this folder")
    task = new_task_id()
    result = await side.prompt([WRITE, {"text": "then not"}], task)
    assert result.status == "completed"
    assert updates(side, task) == ["awaiting_permission", "denied"]
    assert side.of_kind(task, BlockUpdate)[-1].reason == "not in this folder"
    assert side.of_kind(task, BlockDelta)[0].text == "not in this folder"
    assert "written" not in side.text(task)
    assert [complete.is_error for complete in side.of_kind(task, BlockComplete)] == [
        True,
        True,
        False,
    ]


async def test_a_changed_input_is_what_the_tool_runs_with(side):
    side.decide = lambda _: RequestPermissionResult(approved=True, updated_input={"path": "b.py"})
    task = new_task_id()
    await side.prompt([WRITE], task)
    changed = [u for u in side.of_kind(task, BlockUpdate) if u.tool_input is not None]
    assert [update.tool_input for update in changed] == [{"path": "b.py"}]
    assert updates(side, task)[-1] == "completed"


async def test_a_changed_input_of_a_denied_tool_changes_nothing(side):
    side.decide = lambda _: RequestPermissionResult(approved=False, updated_input={"path": "b.py"})
    task = new_task_id()
    await side.prompt([WRITE], task)
    assert [u for u in side.of_kind(task, BlockUpdate) if u.tool_input is not None] == []


async def test_a_question_answered_with_an_error_fails_the_task_with_that_error(side):
    def refuse(_: RequestPermissionParams) -> RequestPermissionResult:
        raise PermissionDenied("this session may not ask")

    side.decide = refuse
    result = await side.prompt([WRITE])
    assert result.status == "failed"
    assert result.error is not None
    assert (result.error.code, result.error.message) == (
        "permission_denied",
        "this session may not ask",
    )


async def test_stopping_the_task_withdraws_its_question(side):
    run = side.start([WRITE])
    await side.until(lambda: side.questions)
    assert (await side.stop(run.get_name())).stopped
    await side.until(lambda: side.withdrawn)
    assert side.withdrawn == side.questions
    assert (await run).status == "cancelled"


@pytest.mark.parametrize("end", ["orderly", "abrupt"])
async def test_a_question_cut_off_is_asked_again_of_the_next_daemon_with_the_same_id(executor, end):
    task = new_task_id()
    async with daemon(executor.path) as first:
        run = first.start([WRITE], task)
        await first.until(lambda: first.questions)
        if end == "abrupt":
            first.peer.abort()
    assert isinstance(run.exception(), Disconnected)
    async with daemon(executor.path, decide=say_yes) as second:
        assert (await second.prompt([WRITE], task)).status == "completed"
        assert second.questions == first.questions


async def test_a_question_goes_to_the_new_daemon_although_the_old_connection_is_still_open(
    own_executor,
):
    """As when the daemon's host is unreachable, or the old process hangs."""
    async with daemon(own_executor.path) as old:
        run = old.start([WRITE])
        await old.until(lambda: old.questions)
        async with daemon(own_executor.path, decide=say_yes) as new:
            await new.until(lambda: new.questions)
            assert new.questions == old.questions
            assert (await soon(run)).status == "completed"


@pytest.mark.parametrize("step", [WRITE, {"key": "K"}], ids=["permission", "key"])
async def test_a_caller_that_stops_writing_cannot_answer_so_the_next_daemon_is_asked(
    own_executor, step
):
    """`nc -N` and the like still wait for the result, which must come."""
    task = new_task_id()

    def half_closed() -> str:
        with wire(own_executor.path) as connection:
            connection.send(prompt(1, [step], task))
            connection.finish_writing()
            return str(connection.read_until(id=1)["result"]["status"])

    waiting = asyncio.create_task(asyncio.to_thread(half_closed))
    try:
        await own_executor.logged("task_started")
        keys = {"K": "a-key-for-the-test"}
        async with daemon(own_executor.path, decide=say_yes, keys=keys) as side:
            await side.until(lambda: side.questions or side.key_requests)
            assert await soon(waiting) == "completed"
    finally:
        own_executor.process.kill()
        await asyncio.gather(waiting, return_exceptions=True)
