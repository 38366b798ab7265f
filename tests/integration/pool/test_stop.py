"""Agents that will not end: stopped within bounds, nobody left, neighbours unharmed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.contract.waiting import until
from tests.integration.pool.side import claim, left_in, pool_in, prompt, run, soon, tree_of

from agor.errors import ExecutorFailed
from agor.linux import is_alive, marked, process_of
from agor.protocol.launching import MARK
from agor.protocol.limits import ResourceLimits

IGNORES = "trap '' TERM INT HUP; "
#: What an agent does to be hard to end, and how many processes that makes at least.
UNRULY = {
    "leaves its session": "setsid nohup sleep 1000 >/dev/null 2>&1 & echo up; sleep 1001",
    "forks twice": "(setsid sh -c 'sleep 1000 & sleep 1001 & wait' &) ; echo up; sleep 1001",
    "ignores TERM": f"{IGNORES} echo up; while :; do sleep 1000; done",
    "ignores TERM in another session":
        f"setsid sh -c \"{IGNORES} while :; do sleep 1000; done\" & echo up; wait",
    "forks in a loop": "echo up; while :; do (sleep 1000 &) ; done",
    "writes without end": "echo up; yes >&2 & yes",
}  # fmt: skip


@pytest.mark.parametrize("script", UNRULY.values(), ids=UNRULY)
async def test_whatever_an_agent_does_stopping_leaves_nobody_and_harms_no_neighbour(
    folder: Path, script: str
):
    limits = ResourceLimits(processes=200)
    async with pool_in(folder, stop_timeout=1.0, limits=limits) as (pool, side):
        neighbour = await soon(pool.acquire(claim("neighbour")))
        server = "setsid sleep 1002 & echo $!; echo up; sleep 1003"
        other = asyncio.create_task(run(neighbour, [{"run": ["sh", "-c", server]}], "n"))
        unruly = await soon(pool.acquire(claim("unruly")))
        task = asyncio.create_task(run(unruly, [{"run": ["sh", "-c", script]}]))
        await side.until(lambda: "up" in side.text("task") and "up" in side.text("n"))
        ending = await soon(pool.stop("unruly", "the test says so"))
        assert ending is not None
        assert ending.survivors == 0
        assert marked(MARK, ending.executor_id) == []
        await asyncio.wait((task,))
        assert await neighbour.is_healthy()
        background = process_of(int(side.text("n").split()[0]))
        assert background is not None, "what the neighbour runs in the background goes on"
        assert is_alive(background)
        await soon(pool.stop("neighbour", "the test is over"))
        assert not is_alive(background)
        await asyncio.wait((other,))
    assert left_in(folder) == []


async def test_an_agent_that_fills_its_memory_is_killed_and_harms_no_neighbour(folder: Path):
    limits = ResourceLimits(memory=128 * 1024 * 1024)
    async with pool_in(folder, limits=limits) as (pool, side):
        neighbour = await soon(pool.acquire(claim("neighbour")))
        greedy = await soon(pool.acquire(claim("greedy")))
        script = "python3 -c 'x = bytearray(400_000_000)' && echo filled; echo over"
        task = asyncio.create_task(run(greedy, [{"run": ["sh", "-c", script]}]))
        # Either only the greedy process is killed, or the executor with it.
        await side.until(lambda: "over" in side.text("task") or side.endings)
        await asyncio.wait((task,))
        assert "filled" not in side.text("task")
        assert await neighbour.is_healthy()
        assert (await run(neighbour, [{"text": "fine"}], "n")).status == "completed"
    assert {ending.survivors for ending in side.endings} == {0}


async def test_a_hung_executor_is_killed_within_the_bounds(folder: Path):
    async with pool_in(folder, stop_timeout=0.5) as (pool, _):
        environment = await soon(pool.acquire(claim("s")))
        assert environment.info is not None
        os.kill(environment.info.pid, signal.SIGSTOP)
        ending = await soon(pool.stop("s", "the test says so"))
        assert ending is not None
        assert (ending.signal, ending.survivors) == (signal.SIGKILL, 0)


async def test_an_executor_that_ends_by_itself_leaves_none_of_its_processes(folder: Path):
    async with pool_in(folder) as (pool, side):
        environment = await soon(pool.acquire(claim("s")))
        away = "setsid sh -c 'echo up; exec sleep 1000' & "
        script = f"{away} {away} sleep 1001"
        task = asyncio.create_task(run(environment, [{"run": ["sh", "-c", script]}]))
        await side.until(lambda: side.text("task").count("up") == 2)
        await until(lambda: len(tree_of(environment)) == 5)
        pids = tree_of(environment)
        assert environment.info is not None
        os.kill(environment.info.pid, signal.SIGKILL)
        await side.until(lambda: side.endings)
        assert side.endings[0].left_behind == 4
        assert side.endings[0].survivors == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        await asyncio.wait((task,))


async def test_stopping_twice_and_while_starting_ends_once(folder: Path):
    async with pool_in(folder) as (pool, side):
        starting = asyncio.create_task(pool.acquire(claim("s")))
        await asyncio.sleep(0)
        await soon(pool.stop("s", "changed my mind"))
        with pytest.raises(ExecutorFailed, match="stopped before"):
            await soon(starting)
        environment = await soon(pool.acquire(claim("s")))
        asking = asyncio.create_task(environment.execute_prompt(prompt([{"delay_ms": 10**7}])))
        await side.until(lambda: side.events["task"])
        first, second = await soon(asyncio.gather(pool.stop("s", "one"), pool.stop("s", "two")))
        assert first is second
        assert [ending.session_id for ending in side.endings].count("s") <= 2
        await asyncio.wait((asking,))
    assert left_in(folder) == []
