"""Terminals of pooled executors: kept over a daemon's absence, gone with their executor."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.integration.pool.side import Side, claim, pool_in, soon
from tests.integration.pool.test_deaths import family_of
from tests.integration.processes import Mark

from agor.execution import ExecutionEnvironment
from agor.protocol.terminals import SpawnTerminalParams

#: In the session, out of it, and deaf to what a terminal says as it hangs up.
JOBS = b"sleep 1001 & nohup sleep 1002 >/dev/null 2>&1 & setsid sleep 1003 & echo u''p\n"


async def opened(environment: ExecutionEnvironment, side: Side, folder: Path, mark: Mark) -> int:
    """Open a terminal, look at it, and have its shell start what likes to stay."""
    env = mark.on({"HOME": str(folder)})
    params = SpawnTerminalParams(terminal_id="t", cwd=str(folder), shell="bash", env=env)
    shell = await environment.terminals.spawn(params)
    await side.look(environment, "t")
    await environment.terminals.type("t", JOBS)
    await side.until(lambda: b"up\r\n" in side.printed["t"])
    return shell.pid


async def test_a_pool_that_comes_back_finds_the_terminal_as_it_was(folder: Path):
    mark, first, second = Mark(), Side(), Side()
    async with pool_in(folder, first, drain=False) as (pool, _):
        environment = await soon(pool.acquire(claim("s")))
        pid = await opened(environment, first, folder, mark)
    async with pool_in(folder, second) as (pool, _):
        environment = await soon(pool.acquire(claim("s")))
        assert environment.info is not None
        (info,) = environment.info.terminals
        assert (info.terminal_id, info.pid, info.exit_code) == ("t", pid, None)
        await second.look(environment, "t")
        assert second.printed["t"].startswith(first.printed["t"])
        await environment.terminals.type("t", b"exit 9\n")
        await second.until(lambda: second.exit_codes)
        assert second.exit_codes == {"t": 9}
    await asyncio.to_thread(mark.wait_gone)


@pytest.mark.parametrize("whom", ["stopped", "executor", "keeper"])
async def test_nothing_of_a_terminal_outlives_its_executor(folder: Path, whom: str):
    mark = Mark()
    async with pool_in(folder) as (pool, side):
        environment = await soon(pool.acquire(claim("s")))
        await opened(environment, side, folder, mark)
        family = family_of(pool, "s")
        if whom == "stopped":
            await soon(pool.stop("s", "the test says so"))
        else:
            os.kill(getattr(family, whom).pid, signal.SIGKILL)
        await side.until(lambda: side.endings)
        assert side.endings[0].survivors == 0
        await asyncio.to_thread(mark.wait_gone)
