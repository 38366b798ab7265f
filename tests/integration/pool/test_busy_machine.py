"""Starts on a machine that is slow, busy or short of something: they wait, and do not fail."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.contract.waiting import until
from tests.integration.pool.side import PATIENCE, claim, left_in, open_files, pool_in, run, soon
from tests.integration.pool.test_deaths import family_of, launcher_of
from tests.integration.pool.test_spares import PRELOAD, nothing_to_preload, ready
from tests.integration.shortages import no_more_files

from agor.daemon.pool import keeper_watch, launchers, pooled, spares
from agor.daemon.pool.ending import UNKNOWN
from agor.daemon.pool.keeper_watch import KeeperWatch
from agor.daemon.pool.launchers import Launchers
from agor.daemon.pool.pool import Pool
from agor.daemon.pool.pooled import PooledExecutor
from agor.environments.identity import UnixIdentity
from agor.environments.launching import (
    LauncherLink,
    bind_control,
    launcher_command,
    start_launcher,
)
from agor.errors import LauncherFailed, ResourcesExhausted
from agor.linux import children, is_alive, process_of, send
from agor.process_clock import ProcessClock
from agor.protocol.launching import Process


def has_agents_libraries(pid: int) -> bool:
    # A part of what claude-agent-sdk needs, and agor does not.
    return "pydantic_core" in Path(f"/proc/{pid}/maps").read_text()


def state_of(process: Process) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


async def launcher_process(pool: Pool) -> Process:
    found = process_of(await launcher_of(pool))
    assert found is not None
    return found


async def waiting_keeper(pool: Pool) -> Process:
    """The keeper that was forked ahead: it has no executor yet."""
    launcher = await launcher_process(pool)

    def found() -> list[Process]:
        known = {family_of(pool, each.claim.session_id).keeper for each in pool.executors()}
        return [child for child in children(launcher.pid) if child not in known]

    await until(found)
    (keeper,) = found()
    return keeper


def _asked(link: LauncherLink) -> bool:
    return bool(link._waiting)


def _gone(process: Process) -> bool:
    return not is_alive(process)


def _empty(pool: Pool, seat: str) -> bool:
    return not pool.has(seat)


async def stop(process: Process) -> None:
    os.kill(process.pid, signal.SIGSTOP)
    await until(lambda: state_of(process) == "T")


# ── imports ──────────────────────────────────────────────────────────────────────────────────


def stop_the_first_in_its_imports(
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[asyncio.Event, list[Process]]:
    """Stop the first launcher that imports the agents' libraries, as on a machine busy enough.

    Returns what is set then, and the list that it is in from then on.
    """
    starting, real = asyncio.Event(), start_launcher
    stopped: list[Process] = []

    def start_and_stop(identity, listener, log, arguments):
        process = real(identity, listener, log, arguments)
        if "--preload" in arguments and not stopped:
            os.kill(process.pid, signal.SIGSTOP)
            found = process_of(process.pid)
            assert found is not None
            stopped.append(found)
            starting.set()
        return process

    monkeypatch.setattr(launchers, "start_launcher", start_and_stop)
    return starting, stopped


async def test_while_the_agents_libraries_are_imported_executors_are_started(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    starting, stopped = stop_the_first_in_its_imports(monkeypatch)
    monkeypatch.setattr(spares, "_QUIET", 0.01)
    async with pool_in(folder) as (pool, _):
        await soon(pool.acquire(claim("first")))
        before = await launcher_process(pool)
        await soon(starting.wait())
        second = await soon(pool.acquire(claim("second")))
        assert (await run(second, [{"text": "here"}])).status == "completed"
        assert await launcher_of(pool) == before.pid

        os.kill(stopped[0].pid, signal.SIGCONT)
        await until(lambda: pool.spares)
        assert await launcher_of(pool) == stopped[0].pid
        third = await soon(pool.acquire(claim("third")))
        assert third.info is not None
        assert has_agents_libraries(third.info.pid)
        # The first one lives as long as what it started, and no longer.
        assert is_alive(before)
        for session in ("first", "second"):
            await soon(pool.stop(session, "done"))
        await until(lambda: not is_alive(before))
        assert await third.is_healthy()
    assert left_in(folder) == []
    assert not is_alive(stopped[0])


async def test_a_launcher_with_the_libraries_is_found_again_after_a_restart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(spares, "_QUIET", 0.01)
    async with pool_in(folder, drain=False) as (pool, _):
        await soon(pool.acquire(claim("s")))
        await until(lambda: pool.spares)
        preloaded = await launcher_of(pool)
    async with pool_in(folder) as (pool, _):
        await soon(pool.acquire(claim("t")))
        assert await launcher_of(pool) == preloaded
    assert left_in(folder) == []


async def test_if_the_one_with_the_libraries_dies_over_its_imports_the_other_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    tries, real = [], start_launcher

    def start_and_kill(identity, listener, log, arguments):
        process = real(identity, listener, log, arguments)
        if "--preload" in arguments:
            tries.append(process)
            process.kill()
        return process

    monkeypatch.setattr(launchers, "start_launcher", start_and_kill)
    monkeypatch.setattr(spares, "_QUIET", 0.01)
    monkeypatch.setattr(spares, "_RETRIES", (0.01,))
    async with pool_in(folder) as (pool, _):
        await soon(pool.acquire(claim("first")))
        before = await launcher_of(pool)
        await until(lambda: len(tries) == 2)
        assert await (await soon(pool.acquire(claim("second")))).is_healthy()
        assert await launcher_of(pool) == before
    assert left_in(folder) == []


async def test_after_a_restart_nobody_waits_for_the_one_that_still_imports(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    starting, stopped = stop_the_first_in_its_imports(monkeypatch)
    monkeypatch.setattr(spares, "_QUIET", 0.01)
    try:
        async with pool_in(folder, drain=False) as (pool, _):
            await soon(pool.acquire(claim("first")))
            before = await launcher_of(pool)
            await soon(starting.wait())
        async with pool_in(folder, spare_executors=0) as (pool, _):
            await soon(pool.acquire(claim("second")))
            assert await launcher_of(pool) == before
            os.kill(stopped[0].pid, signal.SIGCONT)
    finally:
        for each in stopped:
            send(each, signal.SIGKILL)


async def test_one_that_was_replaced_is_gone_when_the_pool_is_closed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(spares, "_QUIET", 0.01)
    monkeypatch.setattr(launchers, "_END_TIMEOUT", 1.0)
    async with pool_in(folder, drain=False, spare_executors=0) as (pool, _):
        monkeypatch.setattr(Launchers, "preload", nothing_to_preload)
        await soon(pool.acquire(claim("s")))
        before = await launcher_process(pool)
    monkeypatch.setattr(Launchers, "preload", PRELOAD)
    async with pool_in(folder) as (pool, _):
        await soon(pool.acquire(claim("t")))
        await until(lambda: pool.spares)
        assert await launcher_of(pool) != before.pid
        # It was told to end, and will not.
        await stop(before)
    await until(lambda: not is_alive(before))


async def test_one_that_was_found_while_it_imported_is_not_sent_away(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    starting, stopped = stop_the_first_in_its_imports(monkeypatch)
    monkeypatch.setattr(spares, "_QUIET", 0.01)
    async with pool_in(folder) as (pool, _):
        await soon(pool.acquire(claim("first")))
        before = await launcher_process(pool)
        await soon(starting.wait())
        (link,) = pool._parts.launchers._links.values()
        os.kill(before.pid, signal.SIGKILL)
        await soon(link.wait_closed())
        second = asyncio.create_task(pool.acquire(claim("second")))
        await until(lambda: len(pool.executors()) == 2)
        os.kill(stopped[0].pid, signal.SIGCONT)
        await soon(second)
        await until(lambda: pool.spares)
        assert await launcher_of(pool) == stopped[0].pid
        (link,) = pool._parts.launchers._links.values()
        assert link.path.exists()
        assert link not in pool._parts.launchers._leaving
        again = LauncherLink.connect(link.path)
        assert again is not None, "it serves those who come after us"
        again.close()
    assert left_in(folder) == []


async def test_one_that_could_not_import_them_is_replaced_by_no_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    tries, real = [], start_launcher
    broken = tmp_path / "agor-executor"
    broken.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "sys.modules['acp'] = None  # Importing it fails.\n"
        "from agor.executor.main import main\n"
        "sys.exit(main())\n"
    )
    broken.chmod(0o755)

    def start(identity, listener, log, arguments):
        if "--preload" in arguments:
            tries.append(arguments)
        return real(identity, listener, log, arguments)

    monkeypatch.setattr("agor.environments.launching.executor_command", lambda: broken)
    monkeypatch.setattr(launchers, "start_launcher", start)
    monkeypatch.setattr(spares, "_QUIET", 0.01)
    monkeypatch.setattr(spares, "_PAUSE", 0.01)
    async with pool_in(folder) as (pool, _):
        for number in range(3):
            await soon(pool.acquire(claim(f"s{number}")))
            await until(lambda: pool.spares)
        assert len(tries) == 1
        (link,) = pool._parts.launchers._links.values()
        assert link.path.exists()
    assert left_in(folder) == []


# ── launchers that are slow, hang or die ─────────────────────────────────────────────────────


async def test_whoever_waits_for_a_launcher_that_is_killed_gets_an_executor_of_the_next(
    folder: Path,
):
    async with pool_in(folder, max_executors=20) as (pool, _):
        await soon(pool.acquire(claim("s")))
        for number in range(5):
            launcher = await launcher_process(pool)
            await stop(launcher)
            waiting = asyncio.create_task(pool.acquire(claim(f"s{number}")))
            (link,) = pool._parts.launchers._links.values()
            await until(partial(_asked, link))
            os.kill(launcher.pid, signal.SIGKILL)
            assert await (await soon(waiting)).is_healthy()
    assert left_in(folder) == []


async def test_a_start_that_one_keeper_is_slow_with_holds_up_no_other(folder: Path):
    async with pool_in(folder, spare_executors=0) as (pool, _):
        await soon(pool.acquire(claim("first")))
        keeper = await waiting_keeper(pool)
        await stop(keeper)
        slow = asyncio.create_task(pool.acquire(claim("slow")))
        await until(lambda: len(pool.executors()) == 2)
        await soon(asyncio.gather(*(pool.acquire(claim(f"s{number}")) for number in range(4))))
        assert not slow.done()
        os.kill(keeper.pid, signal.SIGCONT)
        assert await (await soon(slow)).is_healthy()
        assert family_of(pool, "slow").keeper == keeper
    assert left_in(folder) == []


async def test_for_one_keeper_that_hangs_the_launcher_is_not_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Launchers, "preload", nothing_to_preload)
    async with pool_in(folder, spare_executors=0, stop_timeout=0.1) as (pool, _):
        await soon(pool.acquire(claim("first")))
        keeper, launcher = await waiting_keeper(pool), await launcher_of(pool)
        await stop(keeper)
        with monkeypatch.context() as impatient:
            impatient.setattr(pooled, "_SPAWN_TIMEOUT", 0.5)
            slow = asyncio.create_task(pool.acquire(claim("slow")))
            await until(lambda: not is_alive(keeper))
        assert await (await soon(slow)).is_healthy()
        assert await launcher_of(pool) == launcher
    assert left_in(folder) == []


async def test_a_start_that_is_called_off_half_way_leaves_nothing(folder: Path):
    async with pool_in(folder, spare_executors=0, stop_timeout=0.1) as (pool, _):
        await soon(pool.acquire(claim("first")))
        keeper = await waiting_keeper(pool)
        await stop(keeper)
        slow = asyncio.create_task(pool.acquire(claim("slow")))
        await until(lambda: len(pool.executors()) == 2)
        slow.cancel()
        await asyncio.wait((slow,))
        await until(lambda: len(pool.executors()) == 1)
        await until(lambda: not is_alive(keeper))
        assert await (await soon(pool.acquire(claim("slow")))).is_healthy()
    assert left_in(folder) == []


async def test_a_launcher_that_cannot_work_at_all_is_reported_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    tries = []

    def command(identity, arguments):
        tries.append(arguments)
        return ["false"]

    monkeypatch.setattr("agor.environments.launching.launcher_command", command)
    async with pool_in(folder) as (pool, _):
        with pytest.raises(LauncherFailed):
            await soon(pool.acquire(claim("s")))
    assert len(tries) == 1


async def test_a_launcher_that_was_stopped_as_it_came_up_serves_whoever_waits(folder: Path):
    identity, errors = UnixIdentity.current(), folder / "errors"
    # All the time that it would wait alone is over when it is ready.
    with bind_control(folder / "control") as listener:
        process = start_launcher(identity, listener, errors, ["--orphan-timeout-ms", "1"])
        link = LauncherLink.connect(folder / "control")
        assert link is not None
    hello = await link.greet(PATIENCE)
    assert hello.process.pid == process.pid
    link.close()
    assert await asyncio.to_thread(process.wait, PATIENCE) == 0


async def test_a_launcher_that_was_replaced_leaves_no_zombie(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(spares, "_QUIET", 0.01)
    async with pool_in(folder) as (pool, _):
        await soon(pool.acquire(claim("first")))
        before = await launcher_process(pool)
        await until(lambda: pool.spares)
        assert await launcher_of(pool) != before.pid
        await soon(pool.stop("first", "done"))
        # One that nobody has reaped still has its number.
        await until(lambda: not process_of(before.pid))


async def test_an_executor_that_does_not_answer_at_first_is_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    stopped: list[Process] = []
    real = PooledExecutor._wait_for_first_answer

    async def stop_the_first(self, greeting, family, timeout):
        if not stopped:
            stopped.append(family.executor)
            os.kill(family.executor.pid, signal.SIGSTOP)
            timeout = 0.1
            greeting = asyncio.get_running_loop().create_future()
        await real(self, greeting, family, timeout)

    monkeypatch.setattr(PooledExecutor, "_wait_for_first_answer", stop_the_first)
    async with pool_in(folder, spare_executors=0, stop_timeout=0.1) as (pool, _):
        environment = await soon(pool.acquire(claim("s")))
        assert (await run(environment, [{"text": "here"}])).status == "completed"
        assert not is_alive(stopped[0])
    assert left_in(folder) == []


async def test_who_asks_whether_an_executor_answers_gives_others_a_turn(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    async with pool_in(folder, spare_executors=0) as (pool, _):
        await soon(pool.acquire(claim("s")))
        (found,) = pool.executors()

        async def refuse(_: float) -> bool:
            # As with as many requests under way as there may be.
            return False

        monkeypatch.setattr(found.environment, "is_healthy", refuse)
        order: list[str] = []
        asking = asyncio.create_task(found.answers(0.2))
        asking.add_done_callback(lambda _: order.append("answered"))
        asyncio.get_running_loop().call_later(0.01, order.append, "another")
        assert await soon(asking) is False
        assert order == ["another", "answered"]


async def test_a_launcher_that_ends_in_order_as_it_comes_up_is_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    tries, real = [], launcher_command

    def command(identity, arguments):
        tries.append(arguments)
        # As one does that is told to end by a signal just then.
        return ["true"] if len(tries) == 1 else real(identity, arguments)

    monkeypatch.setattr("agor.environments.launching.launcher_command", command)
    async with pool_in(folder) as (pool, _):
        assert await (await soon(pool.acquire(claim("s")))).is_healthy()
    assert len(tries) == 2


async def test_an_executor_that_waits_for_a_processor_is_taken_back_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    async with pool_in(folder, drain=False, spare_executors=0) as (pool, _):
        await soon(pool.acquire(claim("s")))
        executor = family_of(pool, "s").executor
    looks = []

    def starved(self: ProcessClock) -> float:
        looks.append(self)
        return 0.0

    monkeypatch.setattr(ProcessClock, "elapsed", starved)
    await stop(executor)
    async with contextlib.AsyncExitStack() as until_the_end:
        coming = pool_in(folder, spare_executors=0, connection_timeout=0.1)
        opening = asyncio.create_task(until_the_end.enter_async_context(coming))
        try:
            # Its time would have been over twice.
            await until(lambda: len(looks) > 2)
        finally:
            os.kill(executor.pid, signal.SIGCONT)
            pool, _ = await soon(opening)
        assert family_of(pool, "s").executor == executor
    assert left_in(folder) == []


async def test_who_no_longer_waits_for_a_launcher_of_earlier_leaves_no_connection(folder: Path):
    async with pool_in(folder, drain=False, spare_executors=0) as (pool, _):
        await soon(pool.acquire(claim("s")))
        launcher = await launcher_process(pool)
    async with pool_in(folder, spare_executors=0) as (pool, _):
        await stop(launcher)
        before = open_files()
        for number in range(3):
            waiting = asyncio.create_task(pool.acquire(claim(f"s{number}")))
            await until(lambda: open_files() > before)
            waiting.cancel()
            await asyncio.wait((waiting,))
            await until(partial(_empty, pool, f"s{number}"))
        os.kill(launcher.pid, signal.SIGCONT)
        assert open_files() == before


@pytest.mark.usefixtures("soon_alone")
async def test_one_that_nobody_waits_for_any_more_as_it_comes_up_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Launchers, "preload", nothing_to_preload)
    async with pool_in(folder, spare_executors=0) as (pool, _):
        await soon(pool.acquire(claim("s")))
        parts, identity = pool._parts.launchers, UnixIdentity.current()
        before = await launcher_of(pool)
        coming = asyncio.create_task(PRELOAD(parts, identity))
        await until(lambda: len(parts._processes) == 2)
        lock, (_, process) = parts._starting[identity.name], parts._processes[-1]
        async with lock:
            await until(lambda: lock._waiters)
            coming.cancel()
            await asyncio.wait((coming,))
        await soon(asyncio.to_thread(process.wait, PATIENCE))
        assert await launcher_of(pool) == before
    assert left_in(folder) == []


async def clean_up(folder: Path) -> None:
    """Have the next daemon end what an earlier one could not be sure of."""
    async with pool_in(folder, spare_executors=0) as (pool, _):
        assert pool.executors() == []


# ── shortages ────────────────────────────────────────────────────────────────────────────────


async def test_a_launcher_that_has_run_out_of_files_says_so_and_goes_on(folder: Path):
    async with pool_in(folder, spare_executors=0) as (pool, _):
        await soon(pool.acquire(claim("first")))
        await waiting_keeper(pool)
        launcher = await launcher_of(pool)
        with no_more_files(launcher), pytest.raises(ResourcesExhausted, match="open files"):
            await soon(pool.acquire(claim("second")))
        assert await (await soon(pool.acquire(claim("second")))).is_healthy()
        assert await launcher_of(pool) == launcher
    assert left_in(folder) == []


async def test_a_daemon_that_has_run_out_of_files_says_so_and_takes_nobody_for_dead(folder: Path):
    async with pool_in(folder, spare_executors=0) as (pool, side):
        first = await soon(pool.acquire(claim("first")))
        refused = 0
        # Any of the files that a start needs may be the one too many.
        for number in range(8):
            with no_more_files(os.getpid(), but=number):
                try:
                    await soon(pool.acquire(claim("second")))
                except ResourcesExhausted:
                    refused += 1
            second = await soon(pool.acquire(claim("second")))
            assert await second.is_healthy()
            await soon(pool.stop("second", "done"))
        assert refused
        assert await first.is_healthy()
        # Without cgroups, nobody can be looked for meanwhile: then that is what is said.
        assert {ending.survivors for ending in side.endings} <= {0, UNKNOWN}
    await clean_up(folder)
    assert left_in(folder) == []


async def test_a_keeper_that_cannot_be_looked_at_is_not_taken_for_gone(
    monkeypatch: pytest.MonkeyPatch,
):
    looks = []

    def look(process: Process) -> bool:
        looks.append(process)
        return is_alive(process)

    monkeypatch.setattr(keeper_watch, "_LOOK_INTERVAL", 0.001)
    monkeypatch.setattr(keeper_watch, "is_alive", look)
    running = await asyncio.create_subprocess_exec("sleep", "1000")
    keeper = process_of(running.pid)
    assert keeper is not None
    watch = KeeperWatch(lambda: None)
    try:
        for but in range(2):
            with no_more_files(os.getpid(), but=but):
                watch.begin(keeper)
                await until(lambda: len(looks) > 3)
            looks.clear()
            assert not watch.gone.is_set()
            watch.close()
        watch.begin(keeper)
    finally:
        running.kill()
        await running.wait()
    await soon(watch.gone.wait())


async def test_a_launcher_that_has_no_files_to_come_up_with_is_started_again_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    real = start_launcher

    def start_short(identity, listener, log, arguments):
        process = real(identity, listener, log, arguments)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (4, 4096))
        return process

    async with pool_in(folder, spare_executors=0) as (pool, _):
        with monkeypatch.context() as short:
            short.setattr(launchers, "start_launcher", start_short)
            with pytest.raises(ResourcesExhausted, match="open files"):
                await soon(pool.acquire(claim("s")))
        assert await (await soon(pool.acquire(claim("s")))).is_healthy()
    assert left_in(folder) == []


async def test_a_launcher_without_files_outlives_the_end_of_what_it_started(folder: Path):
    async with pool_in(folder, spare_executors=0) as (pool, side):
        await soon(pool.acquire(claim("first")))
        await waiting_keeper(pool)
        launcher, family = await launcher_process(pool), family_of(pool, "first")
        with no_more_files(launcher.pid):
            os.kill(family.executor.pid, signal.SIGKILL)
            await side.until(lambda: side.endings)
            assert is_alive(launcher)
        assert await (await soon(pool.acquire(claim("second")))).is_healthy()
        assert await launcher_of(pool) == launcher.pid
        # It has taken note of that end by now.
        await until(lambda: not process_of(family.keeper.pid))
    await clean_up(folder)
    assert left_in(folder) == []


# ── nobody is left behind ────────────────────────────────────────────────────────────────────


@pytest.fixture
def soon_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launchers, "_ALONE", 0.3)
    monkeypatch.setattr(pooled, "UNUSED_TIMEOUT", 0.3)


async def let_go_of(pool: Pool, executor: PooledExecutor) -> None:
    """Hang up on an executor, and leave it alone, as a daemon does that is killed."""
    executor.detach()
    await executor.environment.disconnect()
    for reserve in pool._spares._reserves.values():
        with contextlib.suppress(ValueError):
            reserve.ready.remove(executor)


@pytest.mark.usefixtures("soon_alone")
async def test_a_launcher_whose_daemon_dies_ends_with_the_last_that_it_started(folder: Path):
    async with pool_in(folder, drain=False, spare_executors=0) as (pool, _):
        environment = await soon(pool.acquire(claim("s")))
        await run(environment, [{"text": "done"}])
        launcher, family = await launcher_process(pool), family_of(pool, "s")
        (worked,) = pool.executors()
    # Hung up on, as by a daemon that is killed: an executor that has worked may be adopted.
    await asyncio.sleep(1.0)
    assert is_alive(launcher)
    assert is_alive(family.executor)
    os.kill(family.executor.pid, signal.SIGTERM)
    await until(lambda: not is_alive(launcher))
    assert worked.ended.done() is False, "nobody was told: the daemon is gone"


@pytest.mark.usefixtures("soon_alone")
async def test_a_launcher_whose_daemon_is_killed_while_it_starts_ends_by_itself(folder: Path):
    async with pool_in(folder, drain=False) as (pool, _):
        coming = asyncio.create_task(pool.acquire(claim("s")))
        await until(lambda: pool._parts.launchers._processes)
        ((_, started),) = pool._parts.launchers._processes
        launcher = process_of(started.pid)
        assert launcher is not None
        pool._parts.launchers.disconnect()
        coming.cancel()
        await asyncio.wait((coming,))
        await until(lambda: not is_alive(launcher))


async def test_a_launcher_whose_daemon_is_killed_while_it_imports_ends_after_that(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(spares, "_QUIET", 0.01)
    # It would stay for an hour if it only waited for another daemon.
    monkeypatch.setattr(launchers, "_ALONE", 3600.0)
    async with pool_in(folder, drain=False) as (pool, _):
        await soon(pool.acquire(claim("s")))
        await until(lambda: len(pool._parts.launchers._processes) == 2)
        importing = process_of(pool._parts.launchers._processes[1][1].pid)
        assert importing is not None
        (reserve,) = pool._spares._reserves.values()
        assert reserve.filling is not None
        # Hangs up, as a daemon that is killed does.
        reserve.filling.cancel()
        await until(partial(_gone, importing))
        await soon(pool.stop("s", "done"))
        for process in await asyncio.gather(launcher_process(pool)):
            os.kill(process.pid, signal.SIGTERM)
            await until(partial(_gone, process))


@pytest.mark.usefixtures("soon_alone")
async def test_an_executor_that_never_worked_ends_soon_after_its_daemon(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(spares, "_QUIET", 0.01)
    monkeypatch.setattr(Launchers, "preload", PRELOAD)
    async with pool_in(folder, drain=False) as (pool, _):
        await soon(pool.acquire(claim("s")))
        await until(lambda: pool.spares)
        (spare,) = ready(pool)
        launcher, family = await launcher_process(pool), spare._family
        assert family is not None
        await soon(pool.stop("s", "done"))
        await let_go_of(pool, spare)
        pool._parts.launchers.disconnect()
        await until(lambda: not is_alive(family.executor) and not is_alive(family.keeper))
        await until(lambda: not is_alive(launcher))


@pytest.mark.usefixtures("soon_alone")
async def test_one_that_was_given_to_somebody_waits_for_the_next_daemon(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """The daemon may have died just before it told the executor of the task."""
    monkeypatch.setattr(spares, "_QUIET", 0.01)
    monkeypatch.setattr(Launchers, "preload", PRELOAD)
    async with pool_in(folder, drain=False) as (pool, _):
        await soon(pool.acquire(claim("started")))
        await until(lambda: pool.spares)
        await soon(pool.acquire(claim("spare")))
        await until(lambda: pool.spares)
        (unassigned,) = ready(pool)
        assert unassigned._family is not None
        for each in (*pool.executors(), unassigned):
            await let_go_of(pool, each)
        # That has the same time without a connection.
        await until(partial(_gone, unassigned._family.executor))
        found = {name: family_of(pool, name) for name in ("started", "spare")}
    async with pool_in(folder, spare_executors=0) as (pool, _):
        assert {name: family_of(pool, name) for name in found} == found
    assert left_in(folder) == []


async def test_a_log_that_somebody_removes_ends_nobody(folder: Path):
    async with pool_in(folder, drain=False, spare_executors=0) as (pool, _):
        environment = await soon(pool.acquire(claim("s")))
        await run(environment, [{"text": "done"}])
        launcher, family = await launcher_process(pool), family_of(pool, "s")
        (log,) = (folder / "run" / "launchers").glob("*.log")
        log.unlink()
    async with pool_in(folder, spare_executors=0) as (pool, _):
        await soon(pool.acquire(claim("another")))
        # It is found where it was, after it had looked around without a daemon.
        assert family_of(pool, "s").executor == family.executor
        assert await launcher_of(pool) == launcher.pid
    assert left_in(folder) == []


async def test_if_the_daemon_and_its_folder_are_gone_nobody_stays(folder: Path):
    async with pool_in(folder, drain=False, spare_executors=0) as (pool, side):
        environment = await soon(pool.acquire(claim("s")))
        script = [{"run": ["sh", "-c", "setsid sleep 1000 & echo up; sleep 1001"]}]
        task = asyncio.create_task(run(environment, script))
        await side.until(lambda: "up" in side.text("task"))
        launcher, family = await launcher_process(pool), family_of(pool, "s")
        (pooled_executor,) = pool.executors()
        pooled_executor.detach()
        pool._parts.launchers.disconnect()
        await environment.disconnect()
        task.cancel()
        await asyncio.wait((task,))
        shutil.rmtree(folder / "run")
        for process in (family.executor, family.keeper, launcher):
            await until(partial(_gone, process))
        (folder / "run" / "executors").mkdir(parents=True)


# ── demand ───────────────────────────────────────────────────────────────────────────────────


async def test_as_many_spares_are_kept_as_were_needed_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(spares, "_QUIET", 0.01)
    monkeypatch.setattr(spares, "_PAUSE", 0.01)
    monkeypatch.setattr(spares, "_AT_ONCE", PATIENCE)
    async with pool_in(folder, max_executors=30) as (pool, side):
        await soon(pool.acquire(claim("s")))
        await until(lambda: pool.spares == 1)
        (reserve,) = pool._spares._reserves.values()
        reserve.claims.clear()
        await soon(asyncio.gather(*(pool.acquire(claim(f"s{number}")) for number in range(4))))
        await until(lambda: pool.spares == 4)
        known = {spare.executor_id for spare in ready(pool)}
        names = [f"t{number}" for number in range(4)]
        found = await soon(asyncio.gather(*(pool.acquire(claim(name)) for name in names)))
        assert {each.executor_id for each in found} == known
        await until(lambda: reserve.filling is None and pool.spares == 8)
        assert reserve.forgetting is not None
        assert reserve.forgetting.when() > asyncio.get_running_loop().time()
        reserve.forgetting.cancel()
        pool._spares._forget_demand(reserve)
        assert pool.spares == 1
        await until(lambda: not pool._spares._ends)
        assert side.endings == []
    assert left_in(folder) == []
