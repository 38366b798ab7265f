"""The call `shutdown`: what it answers, what it refuses meanwhile, and that it happens."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from agor.errors import RpcError
from agor.protocol.events import TaskResult
from tests.integration.daemon_side import daemon
from tests.integration.wire import Wire, request, wire

FOR_EVER = [{"delay_ms": 10**7}]


async def test_an_idle_executor_says_idle_and_ends(bind):
    executor = bind()
    async with daemon(executor.path) as side:
        await side.prompt("hello")
        assert (await side.shutdown(5000)).status == "idle"
        assert await executor.ended() == 0
    assert not executor.path.exists()


async def test_a_task_that_ends_in_time_is_let_finish(bind):
    executor = bind()
    async with daemon(executor.path) as side:
        run = side.start([{"delay_ms": 300}, {"text": "finished"}], "task")
        await side.until(lambda: side.messages["task"])
        assert (await side.shutdown(20_000)).status == "completed"
        assert (await run).status == "completed"
        assert side.text("task") == "finished"
        assert await executor.ended() == 0
    assert not executor.path.exists()


@pytest.mark.parametrize("timeout_ms", [0, 100])
async def test_a_task_that_does_not_end_in_time_is_interrupted(bind, timeout_ms):
    executor = bind()
    async with daemon(executor.path) as side:
        run = side.start([{"run": ["sh", "-c", "sleep 1000 & wait"]}, *FOR_EVER], "task")
        await side.until(lambda: len(side.messages["task"]) > 3)
        assert (await side.shutdown(timeout_ms)).status == "interrupted"
        assert (await run).status == "cancelled"
        assert side.of_kind("task", TaskResult)[-1].status == "cancelled"
        assert await executor.ended() == 0
    executor.wait_childless()
    assert not executor.path.exists()


async def test_new_prompts_are_refused_meanwhile_and_pings_are_not(start):
    executor = start()
    async with daemon(executor.path) as side:
        run = side.start([{"delay_ms": 1000}], "task")
        await side.until(lambda: side.messages["task"])
        ending = asyncio.create_task(side.shutdown(20_000))
        await executor.logged("shutting_down")
        with pytest.raises(RpcError) as refused:
            await side.prompt("hello", "another")
        assert refused.value.code == "shutting_down"
        assert (await side.ping()).pong
        assert (await ending).status == "completed"
        assert (await run).status == "completed"
        assert "another" not in side.messages
        assert await executor.ended() == 0


async def test_a_task_can_still_be_stopped_meanwhile(start):
    executor = start()
    async with daemon(executor.path) as side:
        run = side.start(FOR_EVER, "task")
        await side.until(lambda: side.messages["task"])
        ending = asyncio.create_task(side.shutdown(20_000))
        await executor.logged("shutting_down")
        assert (await side.stop("task")).stopped
        assert (await run).status == "cancelled"
        assert (await ending).status == "completed"
        assert await executor.ended() == 0


async def test_it_happens_although_the_caller_hangs_up(bind):
    """A daemon that is itself about to end does not wait for the answer."""
    executor = bind()
    async with daemon(executor.path) as side:
        side.start([{"delay_ms": 500}], "task")
        await side.until(lambda: side.messages["task"])
        ending = asyncio.create_task(side.shutdown(20_000))
        await executor.logged("shutting_down")
    await asyncio.gather(ending, return_exceptions=True)
    assert await executor.ended() == 0
    assert not executor.path.exists()


async def test_it_happens_although_the_caller_gives_up_waiting(start):
    executor = start()
    async with daemon(executor.path) as side:
        run = side.start([{"delay_ms": 700}], "task")
        await side.until(lambda: side.messages["task"])
        asking = asyncio.create_task(side.shutdown(20_000))
        await executor.logged("shutting_down")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await run).status == "completed"
        assert await executor.ended() == 0


async def test_asked_twice_it_answers_both(start):
    executor = start()
    async with daemon(executor.path) as side:
        run = side.start(FOR_EVER, "task")
        await side.until(lambda: side.messages["task"])
        patient = asyncio.create_task(side.shutdown(20_000))
        await executor.logged("shutting_down")
        assert (await side.shutdown(0)).status == "interrupted"
        assert (await patient).status in ("completed", "interrupted")
        assert (await run).status == "cancelled"
        assert await executor.ended() == 0


def test_a_caller_that_never_greeted_can_end_it_too(bind):
    executor = bind()
    with wire(executor.path) as connection:
        connection.send(request("end", "shutdown", {"reason": "by hand", "timeout_ms": 0}))
        assert connection.read()["result"] == {"status": "idle"}
    assert executor.wait_ended() == 0
    assert "by hand" in executor.log


def _fill(connection: Wire) -> None:
    """Ask and ask, and do not read the answers, until no more questions are taken."""
    connection.sock.settimeout(0.3)
    with contextlib.suppress(TimeoutError):
        while True:
            connection.send(request(1, "ping") * 1000)


def test_a_connection_that_does_not_read_does_not_hold_up_the_end(bind):
    executor = bind()
    with wire(executor.path) as stuck, wire(executor.path) as connection:
        _fill(stuck)
        connection.send(request(1, "shutdown", {"timeout_ms": 0}))
        assert connection.read_until(id=1)["result"] == {"status": "idle"}
        assert executor.wait_ended() == 0
    assert not executor.path.exists()
