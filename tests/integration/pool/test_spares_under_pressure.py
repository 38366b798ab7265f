"""Spares while places are few, disks are slow, and whoever starts them is no good."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.waiting import until
from tests.integration.pool.side import Side, claim, left_in, pool_in, soon
from tests.integration.pool.test_deaths import launcher_of
from tests.integration.pool.test_spares import (
    preloading,
    process_of_spare,
    ready,
    soon_quiet,
    with_spare,
)

from agor.daemon.pool import spares
from agor.daemon.pool.pool import Pool
from agor.daemon.pool.records import ExecutorRecord, FileRecords
from agor.daemon.pool.settings import PoolSettings
from agor.daemon.services.records import StoreRecords
from agor.daemon.store.base import Write
from agor.environments.identity import UnixIdentity
from agor.errors import NotFound, StoreUnavailable
from agor.linux import is_alive, process_of

pytestmark = pytest.mark.usefixtures(soon_quiet.__name__)

__all__ = ["preloading"]


class HeldRecords(FileRecords):
    """Records that are saved when a test lets them, once it holds them up."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.let = asyncio.Event()
        self.let.set()
        self.begun = 0

    async def save(self, record: ExecutorRecord) -> None:
        self.begun += 1
        await self.let.wait()
        await super().save(record)

    def hold(self) -> None:
        self.let.clear()
        self.begun = 0


@contextlib.asynccontextmanager
async def pool_with(folder: Path, **settings: Any) -> AsyncIterator[tuple[Pool, HeldRecords]]:
    records = HeldRecords(folder / "records")
    pool = Pool(PoolSettings(runtime=folder / "run", **settings), Side(), records)
    await soon(pool.open())
    try:
        yield pool, records
    finally:
        records.let.set()
        await soon(pool.close(drain=True))
    assert left_in(folder) == []


async def test_one_that_is_being_given_does_not_make_room_for_others(folder: Path):
    async with pool_with(folder, max_executors=2) as (pool, records):
        spare = await with_spare(pool)
        records.hold()
        second = asyncio.create_task(pool.acquire(claim("second")))
        await until(lambda: records.begun)
        third = asyncio.create_task(pool.acquire(claim("third")))
        await until(lambda: pool._places.waiting)
        records.let.set()
        assert (await soon(second)).executor_id == spare.executor_id
        third.cancel()
        await asyncio.wait((third,))


@pytest.mark.parametrize("wanted", [0, 4])
async def test_nobody_fails_while_more_come_than_there_are_places(folder: Path, wanted: int):
    async def work(name: str) -> None:
        async with pool.lease(claim(name)) as environment:
            assert await environment.is_healthy()

    async with pool_with(folder, max_executors=1, spare_executors=wanted) as (pool, _):
        await work("first")
        await until(lambda: pool.spares == wanted)
        await soon(asyncio.gather(*(work(f"s{number}") for number in range(20))))


async def test_nobody_has_one_whose_record_is_not_saved(folder: Path):
    async with pool_with(folder) as (pool, records):
        await with_spare(pool)
        records.hold()
        second = asyncio.create_task(pool.acquire(claim("second")))
        await until(lambda: records.begun)
        assert pool.acquire_idle(claim("second")) is None
        records.let.set()
        environment = await soon(second)
        pool.release("second", environment)
        assert pool.acquire_idle(claim("second")) is environment


class HeldStore:
    """A store that keeps the order of what is handed in, and is slow to say that it is stored."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.let.set()
        self.full = False
        self.told: list[tuple[str, str | None]] = []

    async def commit(self, write: Write) -> None:
        if self.full:
            raise StoreUnavailable("the disk is full")
        self.told += [(each.action, each.subject) for each in write.records]
        await self.let.wait()


class Nobody:
    """People, of whom there are none."""

    def get(self, user_id: str) -> None:
        raise NotFound(user_id)


class Remembered(StoreRecords):
    """What a daemon has on record that has just been installed."""

    async def load(self) -> list[ExecutorRecord]:
        return []


async def test_one_that_died_while_it_was_given_is_in_the_log_with_its_end(folder: Path):
    store, side = HeldStore(), Side()
    records = Remembered(store, Nobody())  # type: ignore[arg-type]
    pool = Pool(PoolSettings(runtime=folder / "run"), side, records, on_end=side.on_end)
    await soon(pool.open())
    spare = await with_spare(pool)
    store.let.clear()
    second = asyncio.create_task(pool.acquire(claim("second")))
    try:
        await until(lambda: ("executor.started", spare.executor_id) in store.told)
        os.kill(process_of_spare(spare).pid, signal.SIGKILL)
        await until(lambda: spare.stopping is not None)
    finally:
        store.let.set()
    assert (await soon(second)).executor_id != spare.executor_id
    await soon(pool.close(drain=True))
    told = [action for action, subject in store.told if subject == spare.executor_id]
    assert told == ["executor.started", "executor.ended"]
    assert records.whose(spare.executor_id) == (None, None)


async def test_one_that_could_not_be_recorded_is_not_given_and_not_known(folder: Path):
    store = HeldStore()
    records = Remembered(store, Nobody())  # type: ignore[arg-type]
    pool = Pool(PoolSettings(runtime=folder / "run"), Side(), records)
    await soon(pool.open())
    spare = await with_spare(pool)
    store.full = True
    with pytest.raises(StoreUnavailable):
        await soon(pool.acquire(claim("second")))
    assert spare.executor_id not in records._known
    store.full = False
    assert await (await soon(pool.acquire(claim("second")))).is_healthy()
    await soon(pool.close(drain=True))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
async def test_one_of_a_user_is_not_given_to_another_of_the_same_number(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    ours = UnixIdentity.current()
    people = {
        name: dataclasses.replace(ours, name=name, groups=(ours.gid, group), home=f"/{name}")
        for name, group in (("bob", 4242), ("carol", 4343))
    }
    monkeypatch.setattr(
        "agor.daemon.pool.pool.identity_for", lambda claim, _: people[claim.unix_username]
    )
    monkeypatch.setattr("agor.environments.launching.way_to", lambda _: "setuid")
    async with pool_in(folder) as (pool, _):
        await soon(pool.acquire(claim("first", unix="bob")))
        await until(lambda: pool.spares)
        second = await soon(pool.acquire(claim("second", "carol", unix="carol")))
        assert second.info is not None
        status = Path(f"/proc/{second.info.pid}/status").read_text()
        (groups,) = [line for line in status.splitlines() if line.startswith("Groups")]
        assert "4343" in groups
        assert "4242" not in groups


async def test_those_that_hang_do_not_use_up_the_attempts_of_a_claim(folder: Path):
    async with pool_in(folder, spare_executors=3, connection_timeout=0.5) as (pool, _):
        await soon(pool.acquire(claim("first")))
        await until(lambda: pool.spares == 3)
        for spare in ready(pool):
            os.kill(process_of_spare(spare).pid, signal.SIGSTOP)
        assert await (await soon(pool.acquire(claim("second")))).is_healthy()


async def test_an_error_that_nobody_expected_is_tried_again_like_any_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    get_ahead, tries = spares.Spares._get_ahead, []

    async def fail_once(self: spares.Spares, reserve: spares._Reserve) -> None:
        tries.append(reserve)
        if len(tries) == 1:
            raise RuntimeError("can't start new thread")
        await get_ahead(self, reserve)

    monkeypatch.setattr(spares.Spares, "_get_ahead", fail_once)
    monkeypatch.setattr(spares, "_RETRIES", (0.01,))
    async with pool_in(folder) as (pool, _):
        await with_spare(pool)
        assert len(tries) == 2


async def test_the_more_of_them_die_the_longer_it_takes_to_replace_them(folder: Path):
    async with pool_in(folder) as (pool, _):
        await with_spare(pool)
        (reserve,) = pool._spares._reserves.values()
        backed_off = []
        for _ in range(4):
            os.kill(process_of_spare(ready(pool)[0]).pid, signal.SIGKILL)
            await until(lambda: not pool.spares)
            backed_off.append(reserve.back_off)
            await until(lambda: pool.spares)
        assert backed_off == pytest.approx([0.01, 0.02, 0.04, 0.08])
        await soon(pool.acquire(claim("second")))
        assert reserve.back_off == 0


@pytest.mark.usefixtures("preloading")
async def test_a_launcher_that_replaced_another_is_left_alone_until_it_is_quiet(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    async with pool_in(folder) as (pool, _):
        await with_spare(pool)
        (reserve,) = pool._spares._reserves.values()
        assert pool._spares._pause(reserve) == spares._PAUSE
        monkeypatch.setattr(spares, "_QUIET", 3.0)
        (link,) = pool._parts.launchers._links.values()
        os.kill(before := await launcher_of(pool), signal.SIGKILL)
        await soon(link.wait_closed())
        assert pool._spares._pause(reserve) == 3.0
        await until(lambda: link not in pool._parts.launchers._links.values())
        assert await launcher_of(pool) != before
        assert pool._spares._pause(reserve) == 3.0


async def test_who_come_steadily_have_one_at_last(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spares, "_QUIET", 0.5)
    async with pool_in(folder) as (pool, _):
        async with asyncio.timeout(30):
            while not pool.spares:
                # More often than it would ever be quiet.
                pool.release("s", await pool.acquire(claim("s")))
                await pool.stop("s", "again")
                await asyncio.sleep(0.05)


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everybody taken for somebody else than us."""
    monkeypatch.setattr(spares, "way_to", lambda _: "setuid")


def be_away(pool: Pool) -> None:
    """Let all the time pass after which somebody is taken to be away."""
    (reserve,) = pool._spares._reserves.values()
    assert reserve.leaving is not None
    assert reserve.leaving.when() > asyncio.get_running_loop().time() + spares._AWAY / 2
    reserve.leaving.cancel()
    pool._spares._leave(reserve)


@pytest.mark.usefixtures("others")
async def test_who_is_away_has_no_spare_and_no_launcher_until_they_come_back(folder: Path):
    async with pool_in(folder) as (pool, side):
        spare = await with_spare(pool)
        launcher = process_of(await launcher_of(pool))
        assert launcher is not None
        await soon(pool.stop("first", "done"))
        be_away(pool)
        await until(lambda: not is_alive(launcher))
        assert spare.ended.done()
        assert pool.spares == 0
        # Nobody is started in its place.
        assert [each.session_id for each in side.endings] == ["first"]
        assert left_in(folder) == []
        again = await soon(pool.acquire(claim("second")))
        assert await again.is_healthy()
        assert await launcher_of(pool) != launcher.pid
    assert left_in(folder) == []


@pytest.mark.usefixtures("others")
async def test_who_is_at_work_for_long_keeps_the_launcher_until_that_has_ended(folder: Path):
    async with pool_in(folder) as (pool, _):
        spare = await with_spare(pool)
        launcher = process_of(await launcher_of(pool))
        assert launcher is not None
        (first,) = [each.environment for each in pool.executors()]
        be_away(pool)
        await soon(asyncio.shield(spare.ended))
        assert await first.is_healthy()
        assert is_alive(launcher)
        # Who comes back meanwhile is served.
        assert await (await soon(pool.acquire(claim("second")))).is_healthy()
        for session in ("first", "second"):
            ending = await soon(pool.stop(session, "done"))
            assert ending is not None
            assert ending.survivors == 0


@pytest.mark.usefixtures("others")
async def test_who_is_away_while_one_is_started_for_them_has_none(folder: Path):
    async with pool_in(folder) as (pool, _):
        await soon(pool.acquire(claim("first")))
        await until(lambda: len(list((folder / "run" / "executors").glob("*.sock"))) == 2)
        be_away(pool)
        await until(lambda: not pool._spares._ends)
        assert pool.spares == 0
        assert len(list((folder / "run" / "executors").glob("*.sock"))) == 1


async def test_we_ourselves_are_never_away(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spares, "_AWAY", 0.01)
    async with pool_in(folder) as (pool, _):
        await with_spare(pool)
        (reserve,) = pool._spares._reserves.values()
        assert reserve.leaving is None
