"""Launcher, keeper, executor and pool die in any order: nothing is lost and nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from tests.integration.pool.side import (
    PATIENCE,
    Side,
    claim,
    left_in,
    pool_in,
    prompt,
    run,
    soon,
)

from agor.daemon.pool.pool import Pool
from agor.errors import Disconnected
from agor.linux import is_alive
from agor.protocol.launching import Family
from agor.protocol.limits import ResourceLimits


def family_of(pool: Pool, session: str) -> Family:
    found = next(each for each in pool.executors() if each.claim.session_id == session)
    assert found._family is not None
    return found._family


async def launcher_of(pool: Pool) -> int:
    (link,) = pool._parts.launchers._links.values()
    return (await link.greet(PATIENCE)).process.pid


async def test_executors_outlive_their_launcher_and_another_one_is_started(folder: Path):
    async with pool_in(folder) as (pool, _):
        first = await soon(pool.acquire(claim("first")))
        task = asyncio.create_task(run(first, [{"delay_ms": 300}, {"text": "still here"}]))
        old = await launcher_of(pool)
        os.kill(old, signal.SIGKILL)
        second = await soon(pool.acquire(claim("second")))
        assert await launcher_of(pool) != old
        assert await second.is_healthy()
        assert (await soon(task)).status == "completed"
        ending = await soon(pool.stop("first", "the test says so"))
        assert ending is not None
        assert (ending.exit_code, ending.survivors) == (0, 0)
    assert left_in(folder) == []


async def test_a_dead_launcher_is_noticed_and_replaced_before_it_is_needed(folder: Path):
    async with pool_in(folder) as (pool, _):
        await soon(pool.acquire(claim("s")))
        old = await launcher_of(pool)
        os.kill(old, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(Disconnected):
                    if await launcher_of(pool) != old:
                        break
                await asyncio.sleep(0.01)


async def test_a_keepers_death_takes_its_executor_along(folder: Path):
    async with pool_in(folder) as (pool, side):
        environment = await soon(pool.acquire(claim("s")))
        script = "setsid sleep 1000 & echo up; sleep 1001"
        task = asyncio.create_task(run(environment, [{"run": ["sh", "-c", script]}]))
        await side.until(lambda: "up" in side.text("task"))
        family = family_of(pool, "s")
        os.kill(family.keeper.pid, signal.SIGKILL)
        await side.until(lambda: side.endings)
        assert side.endings[0].survivors == 0
        assert not is_alive(family.executor)
        await asyncio.wait((task,))
    assert left_in(folder) == []


async def test_with_launcher_and_keeper_dead_the_executor_is_still_ended(folder: Path):
    async with pool_in(folder) as (pool, side):
        environment = await soon(pool.acquire(claim("s")))
        script = "setsid sleep 1000 & echo up; sleep 1001"
        task = asyncio.create_task(run(environment, [{"run": ["sh", "-c", script]}]))
        await side.until(lambda: "up" in side.text("task"))
        family = family_of(pool, "s")
        os.kill(await launcher_of(pool), signal.SIGKILL)
        os.kill(family.keeper.pid, signal.SIGKILL)
        await side.until(lambda: side.endings)
        assert side.endings[0].survivors == 0
        assert not is_alive(family.executor)
        await asyncio.wait((task,))
    assert left_in(folder) == []


@pytest.mark.parametrize("launcher_too", [False, True], ids=["pool", "pool and launcher"])
async def test_a_pool_that_comes_back_takes_its_executors_back_and_misses_no_event(
    folder: Path, launcher_too: bool
):
    side = Side()
    async with pool_in(folder, side, drain=False) as (pool, _):
        environment = await soon(pool.acquire(claim("s")))
        executor_id = environment.executor_id
        steps = [step for n in range(50) for step in ({"text": f"<{n}>"}, {"delay_ms": 10})]
        task = asyncio.create_task(environment.execute_prompt(prompt(steps)))
        await side.until(lambda: "<5>" in side.text("task"))
        if launcher_too:
            os.kill(await launcher_of(pool), signal.SIGKILL)
    await asyncio.wait((task,))
    # Both hold on to what was acknowledged: the second goes on where the first was cut off.
    async with pool_in(folder, side) as (pool, _):
        (taken,) = pool.executors()
        assert taken.executor_id == executor_id
        assert taken.state == "busy", "it has work under way"
        await side.until(lambda: side.events["task"][-1].event_type == "task_result")
        assert sorted(set(side.sequences("task"))) == list(
            range(1, side.events["task"][-1].sequence + 1)
        )
        assert all(f"<{n}>" in side.text("task") for n in range(50))
        pool.release("s")
        assert (await soon(pool.acquire(claim("s")))).executor_id == executor_id
    assert left_in(folder) == []


async def test_the_wall_time_goes_on_while_the_pool_is_away(folder: Path):
    limits = ResourceLimits(wall_time=2.0)
    async with pool_in(folder, drain=False, limits=limits) as (pool, _):
        await soon(pool.acquire(claim("s")))
        started_at = pool.executors()[0]._started_at
    async with pool_in(folder, limits=limits) as (pool, side):
        assert pool.executors()[0]._started_at == started_at
        await side.until(lambda: side.endings)
        assert "wall_time" in side.endings[0].in_words


async def test_a_clock_that_is_set_while_the_pool_is_away_ends_no_executor(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    limits = ResourceLimits(wall_time=3600.0)
    async with pool_in(folder, drain=False, limits=limits) as (pool, _):
        executor_id = (await soon(pool.acquire(claim("s")))).executor_id
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() + 7200)
    async with pool_in(folder, limits=limits) as (pool, side):
        (taken,) = pool.executors()
        assert taken.running_for < 3600
        assert (await soon(pool.acquire(claim("s")))).executor_id == executor_id
        assert side.endings == []


async def test_what_nobody_knows_any_more_is_ended_and_cleaned_up(folder: Path):
    async with pool_in(folder, drain=False) as (pool, side):
        environment = await soon(pool.acquire(claim("s")))
        script = "setsid sleep 1000 & echo up; sleep 1001"
        task = asyncio.create_task(run(environment, [{"run": ["sh", "-c", script]}]))
        await side.until(lambda: "up" in side.text("task"))
        family = family_of(pool, "s")
    await asyncio.wait((task,))
    for record in (folder / "records").iterdir():
        record.unlink()
    (folder / "run" / "executors" / "stray.sock").touch()
    async with pool_in(folder) as (pool, _):
        assert pool.executors() == []
        assert not is_alive(family.executor)
        assert not is_alive(family.keeper)


async def test_an_executor_that_died_while_nobody_looked_is_cleaned_up(folder: Path):
    async with pool_in(folder, drain=False) as (pool, _):
        await soon(pool.acquire(claim("s")))
        family = family_of(pool, "s")
    os.kill(family.executor.pid, signal.SIGKILL)
    async with pool_in(folder) as (pool, _):
        assert pool.executors() == []
        environment = await soon(pool.acquire(claim("s")))
        assert await environment.is_healthy()
    assert left_in(folder) == []
