"""An executor that nobody is connected to ends by itself, in time, and not before."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.daemon_side import Script, daemon
from tests.integration.wire import request, wire

SOON = ("--orphan-timeout-ms", "250")


def test_an_executor_that_nobody_ever_connects_to_ends_by_itself(bind):
    executor = bind(*SOON)
    assert executor.wait_ended() == 0
    assert "orphaned" in executor.log
    assert not executor.path.exists()


async def test_an_executor_whose_daemon_does_not_come_back_ends_by_itself(bind):
    executor = bind("--orphan-timeout-ms", "1000")
    async with daemon(executor.path) as side:
        await side.prompt("hello")
    assert await executor.ended() == 0
    assert not executor.path.exists()


@pytest.mark.parametrize("greet", [True, False], ids=["daemon", "stranger"])
async def test_while_there_is_a_connection_it_does_not_end(start, greet):
    executor = start(*SOON)
    async with daemon(executor.path, greet=greet) as side:
        # Longer than the orphan time, measured by the executor itself.
        await side.prompt([{"delay_ms": 600}])
        assert (await side.ping()).pong
        assert executor.running
    assert await executor.ended() == 0


async def test_each_new_connection_starts_the_time_anew(start):
    executor = start("--orphan-timeout-ms", "1000")
    pids = set()
    for _ in range(3):
        async with daemon(executor.path) as side:
            pids.add((await side.greet()).pid)
            await side.prompt([{"delay_ms": 400}])
    assert pids == {executor.pid}
    assert "orphaned" not in executor.log


@pytest.mark.parametrize(
    "step",
    [
        {"tool": {"name": "X", "ask": True}},
        {"key": "ANTHROPIC_API_KEY"},
        {"flood": {"events": 10**7, "bytes": 1000}},
    ],
    ids=["permission", "key", "acknowledgements"],
)
async def test_a_task_that_waits_for_what_nobody_can_give_does_not_keep_it(start, step):
    executor = start(*SOON, "--outbox-bytes", "100000")
    async with daemon(executor.path) as side:
        side.start([{"delay_ms": 100}, step], "task")
        await side.until(lambda: side.messages["task"])
    assert await executor.ended() == 0
    assert "task_ended" in executor.log
    assert "status=failed" in executor.log


async def test_a_task_that_needs_nobody_may_finish_first(start, tmp_path):
    executor = start(*SOON)
    script: Script = [{"delay_ms": 600}, {"run": ["touch", "finished"]}]
    async with daemon(executor.path) as side:
        side.start(script, "task", cwd=str(tmp_path))
        await side.until(lambda: side.messages["task"])
    assert await executor.ended() == 0
    assert (tmp_path / "finished").exists()
    assert "status=completed" in executor.log


async def test_a_daemon_that_comes_back_at_the_last_moment_is_served(start, gate):
    """The time is over, but the task is not: it is taken back, and asks the new daemon."""
    executor = start(*SOON)
    script: Script = [gate.step, {"key": "K"}, {"text": "went on"}]
    async with daemon(executor.path) as first:
        first.start(script, "task")
        await first.until(lambda: first.messages["task"])
    await executor.logged("orphaned")
    async with daemon(executor.path, keys={"K": "a-key-for-the-test"}) as second:
        again = second.start(script, "task")
        await gate.open()
        assert (await again).status == "completed"
        assert second.text("task") == "went on"
        # And it is not on its way out any more.
        await second.prompt([{"delay_ms": 500}])
        assert executor.running


def test_a_connection_that_only_pings_keeps_it_and_then_does_not(start):
    executor = start(*SOON)
    with wire(executor.path) as connection:
        for number in range(20):
            connection.send(request(number, "ping"))
            assert connection.read()["id"] == number
    assert executor.wait_ended() == 0


async def test_half_a_connection_that_awaits_no_answer_is_closed_and_does_not_keep_it(start):
    executor = start(*SOON)

    def ask_and_listen() -> str:
        with wire(executor.path) as connection:
            connection.send(request(1, "ping"))
            connection.read()
            connection.finish_writing()
            return "closed" if connection.sock.recv(1) == b"" else "said something"

    assert await asyncio.to_thread(ask_and_listen) == "closed"
    assert await executor.ended() == 0
