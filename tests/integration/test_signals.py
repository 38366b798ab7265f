"""Signals that end it: tasks are told as cancelled, nothing is left, and the exit code is 0."""

from __future__ import annotations

import signal

import pytest

from agor.protocol.events import TaskResult
from tests.integration.daemon_side import Daemon, daemon

SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
STUBBORN = "trap '' TERM INT HUP; sleep 1001 & sleep 1002 & echo up; while :; do sleep 1003; done"


async def cancelled(side: Daemon, task: str) -> TaskResult:
    """Wait for the end of a task that was running when the signal came."""
    await side.finished(task)
    result = side.of_kind(task, TaskResult)[-1]
    assert result.status == "cancelled"
    assert side.sequences(task) == list(range(1, len(side.messages[task]) + 1))
    return result


@pytest.mark.parametrize("number", SIGNALS)
def test_an_idle_executor_ends_with_zero_and_removes_its_socket(bind, number):
    executor = bind()
    executor.send_signal(number)
    assert executor.wait_ended() == 0
    assert not executor.path.exists()
    assert list(executor.path.parent.iterdir()) == [], "nor is anything else left in the folder"


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_running_task_is_told_as_cancelled_and_its_processes_are_gone(bind, number):
    executor = bind()
    async with daemon(executor.path) as side:
        run = side.start([{"run": ["sh", "-c", STUBBORN]}], "task")
        await side.until(lambda: "up" in side.text("task"))
        executor.send_signal(number)
        result = await cancelled(side, "task")
        assert await run == result, "who asked is answered as well"
        assert result.error is not None
        assert number.name in result.error.message
        assert await executor.ended() == 0
    executor.wait_childless()
    assert not executor.path.exists()


@pytest.mark.parametrize(
    "step",
    [
        {"delay_ms": 10**7},
        {"tool": {"name": "X", "ask": True}},
        {"flood": {"events": 10**7, "bytes": 100}},
    ],
    ids=["waiting", "asking", "flooding"],
)
async def test_whatever_a_task_does_it_is_told_as_cancelled(start, step):
    executor = start()
    async with daemon(executor.path) as side:
        side.start([step], "task")
        await side.until(lambda: len(side.messages["task"]) > 1)
        executor.send_signal(signal.SIGTERM)
        await cancelled(side, "task")
        assert await executor.ended() == 0


async def test_a_flood_that_nobody_acknowledges_does_not_hold_up_the_end(start):
    executor = start("--outbox-bytes", "100000")
    async with daemon(executor.path, acknowledge=False) as side:
        side.start([{"flood": {"events": 10**7, "bytes": 100}}], "task")
        await side.until(lambda: len(side.messages["task"]) > 200)
        executor.send_signal(signal.SIGTERM)
        await cancelled(side, "task")
        assert await executor.ended() == 0


async def test_a_task_without_a_daemon_ends_with_its_processes(bind):
    executor = bind()
    async with daemon(executor.path) as side:
        side.start([{"run": ["sh", "-c", STUBBORN]}], "task")
        await side.until(lambda: "up" in side.text("task"))
    await executor.logged("daemon_gone")
    executor.send_signal(signal.SIGTERM)
    assert await executor.ended() == 0
    executor.wait_childless()
    assert not executor.path.exists()


async def test_several_tasks_are_all_told(start):
    executor = start()
    async with daemon(executor.path) as side:
        tasks = [f"task-{number}" for number in range(10)]
        for task in tasks:
            side.start([{"delay_ms": 10**7}], task)
        await side.until(lambda: len(side.messages) == 10)
        executor.send_signal(signal.SIGTERM)
        for task in tasks:
            await cancelled(side, task)
        assert await executor.ended() == 0


async def test_a_second_signal_ends_it_at_once_and_leaves_no_process(bind):
    """Who presses Ctrl-C twice does not want to wait, nor to look for what is left."""
    executor = bind()
    async with daemon(executor.path) as side:
        side.start([{"run": ["sh", "-c", STUBBORN]}], "task")
        await side.until(lambda: "up" in side.text("task"))
        executor.send_signal(signal.SIGINT)
        await executor.logged("shutting_down")
        executor.send_signal(signal.SIGINT)
        await executor.ended()
        executor.wait_childless()
