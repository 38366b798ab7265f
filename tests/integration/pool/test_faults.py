"""What goes wrong on the way: cancelled claims, full disks, dead keepers, launchers that hang."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.integration.pool.side import PATIENCE, Side, claim, left_in, open_files, pool_in, soon
from tests.integration.pool.test_deaths import family_of, launcher_of

from agor.daemon.pool.ending import Ending
from agor.daemon.pool.places import Places
from agor.daemon.pool.pool import Pool
from agor.daemon.pool.records import ExecutorRecord, FileRecords
from agor.daemon.pool.settings import PoolSettings
from agor.errors import AgorError, PoolClosed, ResourcesExhausted
from agor.linux import children, is_alive
from agor.protocol.launching import Family, Process


class FailingRecords(FileRecords):
    """Records on a disk that is full when a test says so."""

    full_for = ""
    family: Family | None = None

    async def save(self, record: ExecutorRecord) -> None:
        self.family = record.family
        self._fail_if_full("save")
        await super().save(record)

    async def ended(self, ending: Ending) -> None:
        self._fail_if_full("remove")
        await super().ended(ending)

    def _fail_if_full(self, what: str) -> None:
        if self.full_for == what:
            raise OSError(errno.ENOSPC, "No space left on device")


@contextlib.asynccontextmanager
async def pool_with(records: FileRecords, folder: Path):
    pool = Pool(PoolSettings(runtime=folder / "run", max_executors=1), Side(), records)
    await soon(pool.open())
    try:
        yield pool
    finally:
        await soon(pool.close(drain=True))


async def test_a_place_that_was_given_to_who_just_left_is_given_on_once():
    places = Places(1, 10, lambda: None)
    await places.take("a")
    waiting = asyncio.create_task(places.take("b"))
    await asyncio.sleep(0)
    waiting.cancel()
    places.give()
    await asyncio.wait((waiting,))
    await soon(places.take("c"))
    another = asyncio.create_task(places.take("d"))
    await asyncio.sleep(0)
    assert places.waiting == 1, "there is one place, and it is taken"
    another.cancel()
    await asyncio.wait((another,))


async def test_two_who_wait_get_the_places_of_two_who_idle(folder: Path):
    async with pool_in(folder, max_executors=2) as (pool, _):
        for session in "ab":
            await soon(pool.acquire(claim(session)))
        for session in "ab":
            pool.release(session)
        await soon(asyncio.gather(pool.acquire(claim("c")), pool.acquire(claim("d"))))


@pytest.mark.parametrize("turns", range(4))
async def test_nobody_is_given_an_executor_that_is_being_ended(folder: Path, turns: int):
    async with pool_in(folder, max_executors=1) as (pool, _):
        doomed = await soon(pool.acquire(claim("a")))
        pool.release("a")
        other = asyncio.create_task(pool.acquire(claim("b")))
        for _ in range(turns):
            await asyncio.sleep(0)
        again = asyncio.create_task(pool.acquire(claim("a")))
        await asyncio.wait((other, again), timeout=PATIENCE, return_when="FIRST_COMPLETED")
        if again.done():
            # It came first: then the executor is as warm as before.
            assert (await again) is doomed
            assert await doomed.is_healthy()
        for waiting in (other, again):
            waiting.cancel()
        await asyncio.wait((other, again))


async def test_who_comes_after_a_cancelled_claim_gets_an_executor(folder: Path):
    async with pool_in(folder) as (pool, _):
        await soon(pool.acquire(claim("warm")))
        leaving = asyncio.create_task(pool.acquire(claim("s")))
        while len(pool.executors()) < 2:
            await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait((leaving,))
        assert await (await soon(pool.acquire(claim("s")))).is_healthy()


async def test_a_record_that_cannot_be_removed_costs_no_place(folder: Path):
    records = FailingRecords(folder / "records")
    async with pool_with(records, folder) as pool:
        await soon(pool.acquire(claim("s")))
        records.full_for = "remove"
        await soon(pool.stop("s", "the test says so"))
        records.full_for = ""
        await soon(pool.acquire(claim("t")))


async def test_an_executor_whose_record_cannot_be_saved_is_ended(folder: Path):
    records = FailingRecords(folder / "records")
    async with pool_with(records, folder) as pool:
        records.full_for = "save"
        with pytest.raises(ResourcesExhausted, match="No space left"):
            await soon(pool.acquire(claim("s")))
        records.full_for = ""
        assert records.family is not None
        assert not is_alive(records.family.executor)
        await soon(pool.acquire(claim("s")))


async def test_a_start_that_fails_half_way_leaks_no_descriptor(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    async with pool_in(folder) as (pool, _):
        await soon(pool.acquire(claim("warm")))
        before, real = open_files(), os.open

        def fail(path, *arguments, **more):
            if str(path).endswith("/report"):
                raise OSError(errno.EMFILE, "Too many open files")
            return real(path, *arguments, **more)

        with monkeypatch.context() as patched:
            patched.setattr(os, "open", fail)
            for number in range(5):
                with pytest.raises(AgorError):
                    await soon(pool.acquire(claim(f"s{number}")))
        assert open_files() == before


async def test_a_launcher_that_hangs_is_killed_and_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("agor.daemon.pool.pooled._SPAWN_TIMEOUT", 1.0)
    async with pool_in(folder, connection_timeout=1.0, stop_timeout=1.0) as (pool, _):
        first = await soon(pool.acquire(claim("s")))
        hangs = await launcher_of(pool)
        os.kill(hangs, signal.SIGSTOP)
        # Who wants an executor meanwhile waits, and does not fail.
        assert await (await soon(pool.acquire(claim("t")))).is_healthy()
        assert await launcher_of(pool) != hangs
        assert await first.is_healthy()
    assert left_in(folder) == []


async def test_giving_back_a_dead_executor_leaves_the_next_one_alone(folder: Path):
    async with pool_in(folder) as (pool, side):
        async with pool.lease(claim("s")):
            os.kill(family_of(pool, "s").executor.pid, signal.SIGKILL)
            await side.until(lambda: side.endings)
            await soon(pool.acquire(claim("s")))
        assert pool.executors()[0].state == "busy"


async def test_of_two_executors_of_one_session_the_newer_is_taken_back(folder: Path):
    async with pool_in(folder, drain=False) as (pool, _):
        await soon(pool.acquire(claim("a")))
        await soon(pool.acquire(claim("b")))
    records = FileRecords(folder / "records")
    older, newer = sorted(await records.load(), key=lambda record: record.started_at)
    for record in (older, newer):
        await records.save(msgspec.structs.replace(record, session_id="s"))
    async with pool_in(folder) as (pool, _):
        assert [each.executor_id for each in pool.executors()] == [newer.executor_id]
        assert not is_alive(older.family.executor)
    assert not is_alive(newer.family.executor)


async def test_a_claim_made_while_the_pool_opens_waits_for_what_is_taken_back(folder: Path):
    async with pool_in(folder, drain=False) as (pool, _):
        first = await soon(pool.acquire(claim("s")))
    pool = Pool(PoolSettings(runtime=folder / "run"), Side(), FileRecords(folder / "records"))
    _, again = await soon(asyncio.gather(pool.open(), pool.acquire(claim("s"))))
    assert again.executor_id == first.executor_id
    await soon(pool.close(drain=True))


async def test_a_keeper_that_died_while_it_waited_is_passed_over(folder: Path):
    async with pool_in(folder, spare_executors=0) as (pool, _):
        await soon(pool.acquire(claim("s")))
        launcher, known = await launcher_of(pool), family_of(pool, "s").keeper
        waiting: list[Process] = []
        async with asyncio.timeout(PATIENCE):
            while not waiting:
                await asyncio.sleep(0.005)
                waiting = [keeper for keeper in children(launcher) if keeper != known]
        os.kill(launcher, signal.SIGSTOP)
        os.kill(waiting[0].pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while is_alive(waiting[0]):
                await asyncio.sleep(0.001)
        coming = asyncio.create_task(pool.acquire(claim("t")))
        # It is there when the launcher wakes up, which so learns of both at once.
        (link,) = pool._parts.launchers._links.values()
        async with asyncio.timeout(PATIENCE):
            while not link._waiting:
                await asyncio.sleep(0)
        os.kill(launcher, signal.SIGCONT)
        assert await (await soon(coming)).is_healthy()


async def test_after_the_pool_is_closed_giving_back_ends_nothing(folder: Path):
    async with pool_in(folder, drain=False, idle_timeout=0.01) as (pool, _):
        await soon(pool.acquire(claim("s")))
        family = family_of(pool, "s")
    pool.release("s")
    assert pool._resting._timers == {}
    assert is_alive(family.executor)
    async with pool_in(folder):
        pass


async def test_a_third_claim_after_two_cancelled_ones_waits_for_the_end_of_the_first(folder: Path):
    async with pool_in(folder, stop_timeout=0.5) as (pool, _):
        await soon(pool.acquire(claim("warm")))
        records, stopped = pool._parts.records, asyncio.Event()
        real = records.save

        async def save(record: ExecutorRecord) -> None:
            # It starts and never answers, so its end takes a while.
            os.kill(record.family.executor.pid, signal.SIGSTOP)
            await real(record)
            stopped.set()

        records.save = save  # type: ignore[method-assign]
        first = asyncio.create_task(pool.acquire(claim("s")))
        await soon(stopped.wait())
        records.save = real  # type: ignore[method-assign]
        second = asyncio.create_task(pool.acquire(claim("s")))
        await asyncio.sleep(0)
        for leaving in (first, second):
            leaving.cancel()
            await asyncio.wait((leaving,))
        third = asyncio.create_task(pool.acquire(claim("s")))
        await asyncio.sleep(0)
        third.cancel()
        await asyncio.wait((third,))
        assert await (await soon(pool.acquire(claim("s")))).is_healthy()


async def test_a_pool_that_could_not_open_refuses_claims(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    async def fail(_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("agor.daemon.pool.pool.take_back", fail)
    pool = Pool(PoolSettings(runtime=folder / "run"), Side(), FileRecords(folder / "records"))
    with pytest.raises(OSError, match="Too many"):
        await pool.open()
    with pytest.raises(PoolClosed):
        await soon(pool.acquire(claim("s")))
    await soon(pool.close(drain=True))


async def test_a_launcher_that_comes_to_a_spawn_too_late_starts_nobody_who_is_not_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("agor.daemon.pool.ladder._ASK", 1.0)
    async with pool_in(folder, connection_timeout=1.0, stop_timeout=1.0, spare_executors=0) as (
        pool,
        _,
    ):
        await soon(pool.acquire(claim("s")))
        launcher = await launcher_of(pool)
        os.kill(launcher, signal.SIGSTOP)
        (link,) = pool._parts.launchers._links.values()
        second = asyncio.create_task(pool.acquire(claim("t")))
        async with asyncio.timeout(PATIENCE):
            while not link._waiting:
                await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait((second,))
        async with asyncio.timeout(PATIENCE):
            while len(pool.executors()) > 1:
                await asyncio.sleep(0.01)
        with contextlib.suppress(ProcessLookupError):
            os.kill(launcher, signal.SIGCONT)
        known = family_of(pool, "s").keeper
        async with asyncio.timeout(PATIENCE):
            # A keeper that waits for a task has no executor.
            while any(children(child.pid) for child in children(launcher) if child != known):
                await asyncio.sleep(0.01)


#: A launcher that cannot fork, and ends well if it tries again.
CANNOT_FORK = """
import os, socket
from agor.executor.launcher import main, offspring

tried = []

def no_fork():
    tried.append(1)
    if len(tried) > 1:
        os._exit(0)
    raise BlockingIOError(11, "Resource temporarily unavailable")

offspring.fork_keeper = no_fork
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("")
listener.listen()
main.Launcher(listener, 5.0, preloaded=False).run()
raise SystemExit(3)
"""


def test_a_launcher_that_cannot_fork_ahead_now_tries_again_later():
    done = subprocess.run(
        [sys.executable, "-c", CANNOT_FORK], capture_output=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


async def test_without_a_descriptor_to_watch_a_keeper_its_end_is_still_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def none_left(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    async with pool_in(folder) as (pool, side):
        await soon(pool.acquire(claim("warm")))
        monkeypatch.setattr("agor.daemon.pool.keeper_watch.os.pidfd_open", none_left)
        await soon(pool.acquire(claim("s")))
        monkeypatch.undo()
        os.kill(family_of(pool, "s").executor.pid, signal.SIGKILL)
        await side.until(lambda: side.endings)
        assert side.endings[-1].signal == signal.SIGKILL
