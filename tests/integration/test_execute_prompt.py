"""A task and the calls about it: run once, joined by repeated calls, guarded by its token."""

from __future__ import annotations

import asyncio

import pytest

from agor.errors import Overloaded, TokenRefused, UnknownTask
from agor.protocol.events import BlockComplete, BlockDelta, Status
from agor.protocol.methods import EXECUTE_PROMPT
from tests.integration.daemon_side import daemon, new_task_id, prompt_params, soon
from tests.integration.wire import ack, prompt, request, wire

WAIT = [{"delay_ms": 10**7}]


async def test_the_same_prompt_again_joins_the_run_and_gives_the_same_result(side):
    task = new_task_id()
    runs = [side.start([{"delay_ms": 50}, {"text": "once"}], task) for _ in range(5)]
    results = await soon(asyncio.gather(*runs))
    assert all(result == results[0] for result in results)
    assert results[0].status == "completed"
    assert side.text(task) == "once"
    assert side.sequences(task) == list(range(1, len(side.messages[task]) + 1))


async def test_the_same_prompt_again_after_the_end_gives_the_result_and_runs_nothing(side):
    task = new_task_id()
    first = await side.prompt([{"text": "once"}], task)
    told = len(side.messages[task])
    assert await side.prompt([{"text": "twice"}], task) == first
    await side.ping()
    assert len(side.messages[task]) == told


async def test_a_failed_task_is_not_tried_again_by_a_repeated_call(side):
    task = new_task_id()
    first = await side.prompt([{"fail": "once"}], task)
    assert await side.prompt([{"text": "another try"}], task) == first


@pytest.mark.parametrize("running", [True, False], ids=["running", "ended"])
async def test_another_token_is_refused_and_the_task_is_not_touched(side, running):
    task = new_task_id()
    run = side.start(WAIT if running else "hello", task)
    await side.until(lambda: side.messages[task])
    if not running:
        await run
    with pytest.raises(TokenRefused) as refused:
        await side.prompt("hello", task, session_token="another")
    assert refused.value.rpc_code == -32002
    with pytest.raises(TokenRefused):
        await side.stop(task, token="another")
    assert run.done() is not running
    await side.stop(task)
    assert (await run).status == ("cancelled" if running else "completed")


async def test_an_unknown_task_cannot_be_stopped(side):
    with pytest.raises(UnknownTask, match="no-such-task") as caught:
        await side.stop("no-such-task")
    assert caught.value.rpc_code == -32003


async def test_a_stop_answers_when_the_task_has_ended_and_its_reason_is_told(side):
    run = side.start(WAIT)
    task = run.get_name()
    await side.until(lambda: side.messages[task])
    assert (await side.stop(task, reason="changed my mind")).stopped is True
    result = await run
    assert result.status == "cancelled"
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("cancelled", "changed my mind")
    assert side.of_kind(task, Status)[-1] == Status("stopping", "changed my mind")
    assert side.events(task)[-1] == result


async def test_a_stop_of_an_ended_task_says_that_it_stopped_nothing(side):
    task = new_task_id()
    await side.prompt("hello", task)
    answer = await side.stop(task)
    assert answer.stopped is False
    assert answer.message is not None
    assert "completed" in answer.message


async def test_several_stops_at_once_are_all_answered(side):
    run = side.start(WAIT)
    await side.until(lambda: side.messages[run.get_name()])
    answers = await soon(asyncio.gather(*(side.stop(run.get_name()) for _ in range(5))))
    assert answers[0].stopped is True
    assert all(answer.stopped or "cancelled" in str(answer.message) for answer in answers)
    assert (await run).status == "cancelled"


async def test_cancelling_the_request_does_not_stop_the_task(side):
    task = new_task_id()
    params = prompt_params([{"delay_ms": 300}, {"text": "went on"}], task)
    call = asyncio.create_task(side.peer.call(EXECUTE_PROMPT, params))
    await side.until(lambda: side.messages[task])
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    result = await side.prompt([], task)
    assert result.status == "completed"
    assert side.text(task) == "went on"


def test_cancelling_the_request_is_answered_as_cancelled(executor):
    task = new_task_id()
    with wire(executor.path) as connection:
        connection.send(prompt(1, WAIT, task))
        connection.read_until(method="report_message")
        connection.send(request("c", "$/cancelRequest", {"id": 1}))
        assert connection.read_until(id=1)["error"]["code"] == -32006
        stop = {"session_token": "token-of-the-tests", "task_id": task}
        connection.send(request(2, "stop_task", stop))
        assert connection.read_until(id=2)["result"] == {"stopped": True}
        connection.send(ack(task, 4))


@pytest.mark.parametrize(
    "step",
    [
        {"delay_ms": 10**7},
        {"run": ["sleep", "1000"]},
        {"tool": {"name": "X", "ask": True}},
    ],
    ids=["waiting", "running", "asking"],
)
async def test_a_task_that_takes_too_long_fails_as_timed_out(own_executor, step):
    async with daemon(own_executor.path) as side:
        result = await side.prompt([step], timeout_ms=200)
        assert result.status == "failed"
        assert result.error is not None
        assert result.error.code == "timed_out"
        assert "200 ms" in result.error.message
        own_executor.wait_childless()


async def test_a_task_that_ends_in_time_is_not_bothered_by_its_limit(side):
    assert (await side.prompt("hello", timeout_ms=60_000)).status == "completed"


async def test_without_streaming_each_block_is_one_delta(side, tmp_path):
    script = [
        {"text": "some words in a row"},
        {"thinking": "more of them"},
        {"run": ["sh", "-c", "echo a; echo b; echo c"]},
        {"flood": {"events": 100, "bytes": 10}},
    ]
    streamed, whole = new_task_id(), new_task_id()
    await side.prompt(script, streamed, stream=True)
    await side.prompt(script, whole, stream=False)
    counts = [complete.deltas for complete in side.of_kind(whole, BlockComplete)]
    assert counts == [1, 1, 0, 1, 1], "the call of the tool itself has no text"
    assert side.text(whole) == side.text(streamed)
    assert len(side.of_kind(streamed, BlockDelta)) > len(side.of_kind(whole, BlockDelta))


async def test_many_tasks_run_side_by_side_and_one_too_many_is_refused(own_executor):
    async with daemon(own_executor.path) as side:
        runs = [side.start(WAIT, f"side-by-side-{number}") for number in range(64)]
        await side.until(lambda: len(side.messages) == 64)
        with pytest.raises(Overloaded) as caught:
            await side.prompt("hello", "one-too-many")
        assert caught.value.rpc_code == -32001
        for run in runs:
            assert (await side.stop(run.get_name())).stopped
        assert {(await run).status for run in runs} == {"cancelled"}
        assert (await side.prompt("hello", "one-too-many")).status == "completed"
