"""A stop leaves nothing behind: no process of the group, no open file, whenever it comes."""

from __future__ import annotations

import time

import pytest

from agor.protocol.events import BlockDelta
from tests.contract.waiting import until
from tests.integration.daemon_side import TOKEN, daemon, new_task_id
from tests.integration.executor_process import ExecutorProcess
from tests.integration.processes import open_files
from tests.integration.wire import Wire, ack, prompt, request, wire

#: Ignores TERM, as do its children in the background and theirs, all in one process group.
STUBBORN = """
trap '' TERM INT HUP
sleep 1001 & sleep 1002 &
sh -c 'trap "" TERM; sleep 1003 & sleep 1004 & wait' &
echo up
while :; do sleep 1005; done
"""
BACKGROUND = "sleep 1001 & sleep 1002 & sleep 1003 & wait"


@pytest.fixture
def executor(own_executor: ExecutorProcess) -> ExecutorProcess:
    """An executor of the test's own: what it leaves behind is counted."""
    return own_executor


async def test_a_stop_ends_a_whole_group_that_ignores_the_polite_signal(executor, side):
    run = side.start([{"run": ["sh", "-c", STUBBORN]}, {"text": "never"}])
    await side.until(lambda: "up" in side.text(run.get_name()))
    await until(lambda: len(executor.offspring()) >= 7)
    assert (await side.stop(run.get_name())).stopped
    executor.wait_childless()
    assert (await run).status == "cancelled"
    assert "never" not in side.text(run.get_name())


async def test_a_polite_program_can_tidy_up_before_it_ends(executor, side, tmp_path):
    polite = "trap 'echo tidied > tidied; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    run = side.start([{"run": ["sh", "-c", polite]}], cwd=str(tmp_path))
    await side.until(lambda: "up" in side.text(run.get_name()))
    await side.stop(run.get_name())
    assert (tmp_path / "tidied").read_text() == "tidied\n"
    executor.wait_childless()


async def test_what_a_finished_program_left_in_its_group_ends_with_its_step(executor, side):
    script = "sh -c 'trap \"\" TERM; exec sleep 1000' >/dev/null 2>&1 </dev/null & echo done"
    run = side.start([{"run": ["sh", "-c", script]}, {"delay_ms": 10**7}])
    await side.until(lambda: len(side.of_kind(run.get_name(), BlockDelta)) > 0)
    executor.wait_childless()
    await side.stop(run.get_name())


@pytest.mark.parametrize(
    "step",
    [
        {"delay_ms": 10**7},
        {"flood": {"events": 10**7, "bytes": 100}},
        {"tool": {"name": "X", "ask": True}},
    ],
    ids=["waiting", "flooding", "asking"],
)
async def test_a_task_is_stopped_whatever_it_does(side, step):
    run = side.start([step])
    await side.until(lambda: len(side.messages[run.get_name()]) > 1)
    assert (await side.stop(run.get_name())).stopped
    assert (await run).status == "cancelled"
    task = run.get_name()
    assert side.sequences(task) == list(range(1, len(side.messages[task]) + 1))


def _stop_at(connection: Wire, task: str, pings: int, wait: float) -> None:
    """Start a task and stop it a moment later; other work and time decide which moment."""
    begin = prompt(1, [{"run": ["sh", "-c", BACKGROUND]}], task)
    idle = b'{"jsonrpc":"2.0","method":"ping"}\n' * pings
    stop = request(2, "stop_task", {"session_token": TOKEN, "task_id": task})
    if wait:
        connection.send(begin)
        # Not to wait for anything, but to hit another moment each time.
        time.sleep(wait)
        connection.send(stop)
    else:
        connection.send(begin + idle + stop)
    answers: dict[int, dict[str, object]] = {}
    last = 0
    while len(answers) < 2:
        message = connection.read()
        if "id" in message:
            answers[message["id"]] = message["result"]
        else:
            last = message["params"]["sequence"]
    connection.send(ack(task, last))
    assert answers[1]["status"] == "cancelled"
    assert answers[2] == {"stopped": True}


def test_a_stop_at_any_moment_of_a_start_leaves_no_process(executor):
    with wire(executor.path) as connection:
        for number in range(30):
            _stop_at(connection, f"early-{number}", pings=number * 60, wait=0)
            _stop_at(connection, f"later-{number}", pings=0, wait=0.0003 * (number + 1))
            executor.wait_childless()


async def test_programs_stopped_in_the_middle_of_their_output_leave_no_open_file(start):
    executor = start("--outbox-bytes", "300000")
    async with daemon(executor.path) as side:

        async def stop_one() -> None:
            side.acknowledge = False
            run = side.start([{"run": ["yes", "y" * 100]}], new_task_id())
            # As much as is told without an acknowledgement; the rest waits in the pipe.
            await side.until(lambda: len(side.text(run.get_name())) > 200_000)
            await side.stop(run.get_name())
            await run
            side.ack_all()

        await stop_one()
        await side.ping()
        before = open_files(executor.pid)
        for _ in range(8):
            await stop_one()
        await side.ping()
        assert open_files(executor.pid) <= before + 1
