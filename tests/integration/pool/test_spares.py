"""Executors that were started ahead: had at once, given to one only, never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from tests.contract.waiting import until
from tests.integration.pool.side import (
    PATIENCE,
    Side,
    claim,
    left_in,
    open_files,
    pool_in,
    run,
    soon,
    tree_of,
)
from tests.integration.pool.test_deaths import launcher_of

from agor.daemon.pool.launchers import Launchers
from agor.daemon.pool.pool import Pool
from agor.daemon.pool.pooled import PooledExecutor
from agor.daemon.pool.records import ExecutorRecord, FileRecords
from agor.daemon.pool.settings import PoolSettings
from agor.daemon.pool.spares import Spares
from agor.environments.identity import UnixIdentity
from agor.linux import is_alive, process_of
from agor.protocol.launching import Process
from agor.protocol.limits import ResourceLimits

PRELOAD = Launchers.preload


@pytest.fixture(autouse=True)
def soon_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agor.daemon.pool.spares._QUIET", 0.01)
    monkeypatch.setattr("agor.daemon.pool.spares._PAUSE", 0.01)
    # It takes a second of a processor, and some tests are about it.
    monkeypatch.setattr(Launchers, "preload", nothing_to_preload)


async def nothing_to_preload(self: Launchers, identity: UnixIdentity) -> None:
    """Leave the launcher as it is."""


@pytest.fixture
def preloading(soon_quiet: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have launchers with the agents' libraries, as in a daemon."""
    monkeypatch.setattr(Launchers, "preload", PRELOAD)


def ready(pool: Pool) -> list[PooledExecutor]:
    """The spares of a pool."""
    return [spare for each in pool._spares._reserves.values() for spare in each.ready]


async def with_spare(pool: Pool, session: str = "first") -> PooledExecutor:
    """Have an executor started, and then a spare."""
    await soon(pool.acquire(claim(session)))
    await until(lambda: pool.spares)
    return ready(pool)[0]


def process_of_spare(spare: PooledExecutor) -> Process:
    assert spare.environment.info is not None
    found = process_of(spare.environment.info.pid)
    assert found is not None
    return found


async def test_who_comes_next_gets_the_one_that_was_started_ahead(folder: Path):
    async with pool_in(folder) as (pool, side):
        spare = await with_spare(pool)
        assert [each.claim.session_id for each in pool.executors()] == ["first"]
        second = await soon(pool.acquire(claim("second")))
        assert second.executor_id == spare.executor_id
        assert (await run(second, [{"text": "at once"}])).status == "completed"
        assert "at once" in side.text("task")
        assert {each.session_id for each in pool.describe()} == {"first", "second"}
        await until(lambda: pool.spares)
        assert ready(pool)[0] is not spare
    assert left_in(folder) == []


@pytest.mark.usefixtures("preloading")
async def test_it_has_the_agents_libraries_and_its_limits_before_it_is_anybodys(folder: Path):
    async with pool_in(folder, limits=ResourceLimits(open_files=99)) as (pool, _):
        spare = await with_spare(pool)
        pid = process_of_spare(spare).pid
        assert "pydantic_core" in Path(f"/proc/{pid}/maps").read_text()
        limits = Path(f"/proc/{pid}/limits").read_text()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
        assert line.split()[3:5] == ["99", "99"]


async def test_each_of_many_who_come_at_once_has_one_to_itself(folder: Path):
    async with pool_in(folder, spare_executors=2) as (pool, _):
        await soon(pool.acquire(claim("first")))
        await until(lambda: pool.spares == 2)
        names = [f"s{number}" for number in range(6)]
        found = await soon(asyncio.gather(*(pool.acquire(claim(name)) for name in names)))
        assert len({each.executor_id for each in found}) == 6
        await until(lambda: pool.spares == 2)
    assert left_in(folder) == []


async def test_they_are_not_counted_among_those_that_may_be_there(folder: Path):
    async with pool_in(folder, max_executors=2) as (pool, _):
        await with_spare(pool)
        second = await soon(pool.acquire(claim("second")))
        await until(lambda: pool.spares)
        third = asyncio.create_task(pool.acquire(claim("third")))
        await until(lambda: pool._places.waiting)
        assert pool.spares == 1
        pool.release("second", second)
        assert (await soon(third)).executor_id != second.executor_id


async def test_with_none_wanted_there_is_none(folder: Path):
    async with pool_in(folder, spare_executors=0) as (pool, _):
        await soon(pool.acquire(claim("first")))
        (reserve,) = pool._spares._reserves.values()
        await until(lambda: reserve.filling is None)
        assert pool.spares == 0
        assert len(list((folder / "run" / "executors").glob("*.sock"))) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_one_that_died_or_hangs_is_not_what_anybody_gets(
    folder: Path, number: signal.Signals
):
    async with pool_in(folder, connection_timeout=1.0) as (pool, _):
        spare = await with_spare(pool)
        os.kill(process_of_spare(spare).pid, number)
        # At once: nobody has heard of it yet.
        second = await soon(pool.acquire(claim("second")))
        assert second.executor_id != spare.executor_id
        assert await second.is_healthy()
        assert (await soon(asyncio.shield(spare.ended))).survivors == 0
    assert left_in(folder) == []


async def test_another_takes_the_place_of_one_that_died_while_it_waited(folder: Path):
    async with pool_in(folder) as (pool, side):
        spare = await with_spare(pool)
        os.kill(process_of_spare(spare).pid, signal.SIGKILL)
        await until(lambda: pool.spares and ready(pool)[0] is not spare)
        # Nobody's end is nobody's news.
        assert side.endings == []


async def test_one_that_is_nobodys_has_no_record_and_one_that_was_given_has(folder: Path):
    async with pool_in(folder) as (pool, _):
        spare = await with_spare(pool)
        record = folder / "records" / f"{spare.executor_id}.json"
        assert not record.exists()
        await soon(pool.acquire(claim("second")))
        assert '"second"' in record.read_text()


@pytest.mark.parametrize("drain", [True, False])
async def test_a_pool_that_is_closed_leaves_none(folder: Path, drain: bool):
    async with pool_in(folder, drain=drain) as (pool, _):
        given = await soon(pool.acquire(claim("first")))
        await until(lambda: pool.spares)
        process = process_of_spare(ready(pool)[0])
    assert not is_alive(process)
    kept = set() if drain else {given.executor_id, f"{given.executor_id}.sock"}
    assert {name for name in left_in(folder) if not name.endswith(".json")} == kept
    async with pool_in(folder):
        pass


async def test_a_pool_that_is_closed_while_it_starts_one_leaves_none(folder: Path):
    async with pool_in(folder) as (pool, _):
        await soon(pool.acquire(claim("first")))
        await until(lambda: len(list((folder / "run" / "executors").glob("*.sock"))) == 2)
    assert left_in(folder) == []


async def test_who_comes_after_a_crash_ends_what_was_nobodys_and_takes_back_the_others(
    folder: Path,
):
    first = Pool(PoolSettings(runtime=folder / "run"), Side(), FileRecords(folder / "records"))
    await soon(first.open())
    spare = await with_spare(first)
    given = await soon(first.acquire(claim("second")))
    assert given.executor_id == spare.executor_id
    await until(lambda: first.spares)
    lost = process_of_spare(ready(first)[0])
    # As if it had died here: it hears and does nothing any more.
    for pooled in (*first.executors(), *ready(first)):
        pooled.detach()
    first._parts.launchers.disconnect()
    for reserve in first._spares._reserves.values():
        reserve.ready.clear()
    async with pool_in(folder) as (pool, _):
        assert not is_alive(lost)
        again = await soon(pool.acquire(claim("second")))
        assert again.executor_id == given.executor_id
        assert await again.is_healthy()
    await soon(first.close(drain=False))
    assert left_in(folder) == []


class SlowRecords(FileRecords):
    """Records that take their time once a test says so."""

    slow = False
    begun = False

    async def save(self, record: ExecutorRecord) -> None:
        self.begun = self.slow
        if self.slow:
            await asyncio.sleep(PATIENCE)
        await super().save(record)


async def test_a_claim_that_is_cancelled_while_it_is_given_one_leaves_no_trace(folder: Path):
    records = SlowRecords(folder / "records")
    pool = Pool(PoolSettings(runtime=folder / "run"), Side(), records)
    await soon(pool.open())
    spare = await with_spare(pool)
    process = process_of_spare(spare)
    records.slow = True
    coming = asyncio.create_task(pool.acquire(claim("second")))
    await until(lambda: records.begun)
    coming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await coming
    assert (await soon(asyncio.shield(spare.ended))).survivors == 0
    assert not is_alive(process)
    assert not pool.has("second")
    records.slow = False
    assert await (await soon(pool.acquire(claim("second")))).is_healthy()
    await soon(pool.close(drain=True))
    assert left_in(folder) == []


async def test_its_time_begins_when_it_is_given_to_somebody(folder: Path):
    limits = ResourceLimits(wall_time=1.0)
    async with pool_in(folder, limits=limits) as (pool, side):
        spare = await with_spare(pool)
        await side.until(lambda: side.endings)
        await until(lambda: time.time() > spare.started_at + 1.1)
        assert spare in ready(pool)
        second = await soon(pool.acquire(claim("second")))
        assert second.executor_id == spare.executor_id
        assert await second.is_healthy()
        await side.until(lambda: len(side.endings) == 2)
        assert "wall_time" in side.endings[1].in_words


async def test_if_the_launcher_dies_spares_go_on_and_the_next_one_starts_more(folder: Path):
    async with pool_in(folder) as (pool, _):
        spare = await with_spare(pool)
        os.kill(await launcher_of(pool), signal.SIGKILL)
        second = await soon(pool.acquire(claim("second")))
        assert second.executor_id == spare.executor_id
        await until(lambda: pool.spares)
        assert await ready(pool)[0].environment.is_healthy()
    assert left_in(folder) == []


async def test_if_none_can_be_started_that_is_tried_again_so_many_times_and_no_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    tries = []

    async def fail(self: Spares, reserve: object) -> None:
        tries.append(reserve)
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("agor.daemon.pool.spares._RETRIES", (0.001, 0.002))
    monkeypatch.setattr(Spares, "_get_ahead", fail)
    async with pool_in(folder) as (pool, _):
        await soon(pool.acquire(claim("first")))
        (reserve,) = pool._spares._reserves.values()
        await until(lambda: reserve.filling is None)
        assert len(tries) == 3
        assert await (await soon(pool.acquire(claim("second")))).is_healthy()
        await until(lambda: len(tries) == 6)


async def test_many_of_them_leave_no_descriptor_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    # However fast they come, one is kept.
    monkeypatch.setattr("agor.daemon.pool.spares._AT_ONCE", -1.0)
    async with pool_in(folder) as (pool, _):
        await with_spare(pool)
        before = open_files()
        for number in range(5):
            name = f"s{number}"
            environment = await soon(pool.acquire(claim(name)))
            assert tree_of(environment)
            await soon(pool.stop(name, "done"))
            await until(lambda: pool.spares)
        assert open_files() == before
