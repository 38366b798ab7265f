"""An executor killed in any state leaves nothing that hinders the next one."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from agor.errors import BrokenFrame, Disconnected
from agor.protocol.methods import StopTaskParams
from agor.protocol.validation import Notice
from tests.integration.daemon_side import TOKEN, Daemon, Script, daemon, soon
from tests.integration.executor_process import ExecutorProcess
from tests.integration.wire import prompt, request, wire

#: More than a socket holds, in lines of which each is a good part of that.
LARGE_LINES: Script = [{"flood": {"events": 10**6, "bytes": 60_000}}]


async def idle(side: Daemon) -> None:
    await side.ping()


async def streaming(side: Daemon) -> None:
    side.start([{"flood": {"events": 10**7, "bytes": 100}}], "task")
    await side.until(lambda: len(side.messages["task"]) > 1000)


async def in_a_tool(side: Daemon) -> None:
    side.start([{"run": ["sh", "-c", "echo up; exec sleep 1000"]}], "task")
    await side.until(lambda: "up" in side.text("task"))


async def asking(side: Daemon) -> None:
    side.start([{"tool": {"name": "X", "ask": True}}], "task")
    await side.until(lambda: side.questions)


async def stopping(side: Daemon) -> None:
    side.start([{"run": ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"]}], "task")
    await side.until(lambda: "up" in side.text("task"))
    params = StopTaskParams(session_token=TOKEN, task_id="task")
    side.peer.notify(Notice("stop_task", StopTaskParams), params)
    await side.until(lambda: any("stopping" in str(event) for event in side.events("task")))


async def works(executor: ExecutorProcess) -> None:
    async with daemon(executor.path) as side:
        assert (await side.greet()).pid == executor.pid
        assert (await side.greet()).tasks == []
        script: Script = [{"text": "hello "}, {"run": ["echo", "again"]}]
        assert (await side.prompt(script, "task")).status == "completed"
        assert side.text("task") == "hello again\n"


@pytest.mark.parametrize("state", [idle, streaming, in_a_tool, asking, stopping])
async def test_the_next_one_starts_on_the_same_path_and_works(bind, state):
    executor = bind()
    async with daemon(executor.path) as side:
        await state(side)
        executor.send_signal(signal.SIGKILL)
        ending = await soon(side.peer.wait_closed())
        assert isinstance(ending, Disconnected)
    assert await executor.ended() == -signal.SIGKILL
    assert executor.path.exists(), "it had no chance to remove it"
    await works(await asyncio.to_thread(bind))


def kill_in_mid_line(executor: ExecutorProcess, task: str) -> None:
    """Kill it when it has filled a socket that nobody reads with a task's events."""
    executor.wait_logged(f"task_id={task}")
    with wire(executor.path) as connection:
        # Each answer is a turn of its loop, in which the task goes on as far as it can.
        for number in range(50):
            connection.send(request(number, "ping"))
            connection.read_until(id=number)
    executor.send_signal(signal.SIGKILL)
    executor.wait_ended()


def test_killed_in_the_middle_of_a_line_it_leaves_half_a_line_and_no_more(bind):
    executor = bind()
    with wire(executor.path) as connection:
        connection.send(prompt(1, LARGE_LINES, "task"))
        kill_in_mid_line(executor, "task")
        received = b""
        while data := connection.sock.recv(2**20):
            received += data
    *lines, half = received.split(b"\n")
    assert half
    sequences = [json.loads(line)["params"]["sequence"] for line in lines]
    assert sequences == list(range(1, len(lines) + 1))
    bind()


async def test_a_daemon_tells_half_a_line_from_a_clean_end(bind):
    executor = bind()
    async with daemon(executor.path, acknowledge=False) as side:
        side.start(LARGE_LINES, "task")
        await side.until(lambda: side.messages["task"])
        # Blocks this side's loop too, on purpose: so it does not read meanwhile.
        kill_in_mid_line(executor, "task")
        assert isinstance(await soon(side.peer.wait_closed()), BrokenFrame)
    await works(await asyncio.to_thread(bind))


async def test_killed_again_and_again_each_one_takes_over(bind):
    for _ in range(4):
        executor = await asyncio.to_thread(bind)
        await works(executor)
        executor.send_signal(signal.SIGKILL)
        assert await executor.ended() == -signal.SIGKILL
