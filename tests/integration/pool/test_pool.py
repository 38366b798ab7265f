"""The pool: one executor per session, warm ones again, bounded in number, fair to all."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.integration.pool.side import (
    claim,
    left_in,
    open_files,
    pool_in,
    run,
    soon,
    tree_of,
)

from agor.daemon.pool.folders import ID_LENGTH, ExecutorFolder
from agor.daemon.pool.settings import Claim, PoolSettings
from agor.errors import AgorError, BadInput, Disconnected, ExecutorFailed, PoolClosed, PoolExhausted
from agor.protocol.limits import ResourceLimits


async def test_an_executor_does_what_it_is_told_and_its_events_arrive(folder: Path):
    async with pool_in(folder) as (pool, side), pool.lease(claim("s")) as environment:
        result = await run(environment, [{"text": "good morning"}])
        assert result.status == "completed"
        assert "good morning" in side.text("task")
        assert side.sequences("task") == list(range(1, len(side.events["task"]) + 1))
    assert left_in(folder) == []


async def test_concurrent_claims_of_a_session_share_one_executor(folder: Path):
    async with pool_in(folder) as (pool, _):
        found = await soon(asyncio.gather(*(pool.acquire(claim("s")) for _ in range(20))))
        assert len({environment.executor_id for environment in found}) == 1
        assert len(pool.executors()) == 1
        for _ in range(20):
            pool.release("s")
        assert pool.executors()[0].state == "idle"


def terminal_claim(session: str, terminal: str) -> Claim:
    return Claim(session_id=session, user_id="anna", terminal_id=terminal)


async def test_a_terminal_has_an_executor_of_its_own_beside_that_of_its_session(folder: Path):
    async with pool_in(folder) as (pool, side):
        tasks = await soon(pool.acquire(claim("s")))
        shells = [await soon(pool.acquire(terminal_claim("s", name))) for name in ("t1", "t2")]
        assert len({each.executor_id for each in (tasks, *shells)}) == 3
        told = {(each.session_id, each.terminal_id) for each in pool.describe()}
        assert told == {("s", None), ("s", "t1"), ("s", "t2")}
        await soon(pool.stop("s", "its task was stopped"))
        assert [each.executor_id for each in side.endings] == [tasks.executor_id]
        assert not pool.has("s")
        assert await soon(shells[0].is_healthy())
        await soon(pool.stop("t1", "it was closed"))
        assert not pool.has("t1")
        assert await soon(shells[1].is_healthy()), "nor do they end with each other"


async def test_an_executor_of_a_session_and_those_of_its_terminals_are_all_taken_back(folder: Path):
    async with pool_in(folder, drain=False) as (pool, _):
        for one in (claim("s"), terminal_claim("s", "t1"), terminal_claim("s", "t2")):
            await soon(pool.acquire(one))
        before = {each.executor_id: each.terminal_id for each in pool.describe()}
    async with pool_in(folder) as (pool, side):
        assert {each.executor_id: each.terminal_id for each in pool.describe()} == before
        assert side.endings == [], "none is taken for an older one of another"


async def test_a_warm_executor_is_used_again_and_an_idle_one_expires(folder: Path):
    async with pool_in(folder, idle_timeout=0.2) as (pool, side):
        first = await soon(pool.acquire(claim("s")))
        pool.release("s")
        again = await soon(pool.acquire(claim("s")))
        assert again is first
        pool.release("s")
        await side.until(lambda: side.endings)
        assert side.endings[0].in_words == "idle for 0.2 s: ended with exit code 0"
        assert pool.executors() == []
        assert left_in(folder) == []


async def test_fifty_executors_at_once_all_answer(folder: Path):
    files = open_files()
    async with pool_in(folder, max_executors=50) as (pool, side):
        async with asyncio.timeout(60):
            found = await asyncio.gather(*(pool.acquire(claim(f"s{n}")) for n in range(50)))
            assert all(await asyncio.gather(*(each.is_healthy(30) for each in found)))
        assert len({each.info.pid for each in found if each.info}) == 50
    assert len(side.endings) == 50
    assert {ending.survivors for ending in side.endings} == {0}
    assert left_in(folder) == []
    assert open_files() == files


async def test_users_wait_in_turn_and_past_the_bound_they_are_told(folder: Path):
    async with pool_in(folder, max_executors=1, max_waiting=3) as (pool, _):
        await soon(pool.acquire(claim("first")))
        order: list[str] = []

        async def wait(session: str, user: str) -> None:
            await pool.acquire(claim(session, user))
            order.append(session)
            pool.release(session)

        waiting = []
        for session, user in (("a1", "anna"), ("a2", "anna"), ("b1", "ben")):
            waiting.append(asyncio.create_task(wait(session, user)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        with pytest.raises(PoolExhausted, match="3 others already wait"):
            await soon(pool.acquire(claim("c1", "carl")))
        pool.release("first")
        await soon(asyncio.gather(*waiting))
        assert order == ["a1", "b1", "a2"]


async def test_who_no_longer_waits_takes_nobodys_place(folder: Path):
    async with pool_in(folder, max_executors=1, max_waiting=1) as (pool, _):
        await soon(pool.acquire(claim("first")))
        for _ in range(3):
            waiting = asyncio.create_task(pool.acquire(claim("second")))
            await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.wait((waiting,))
        pool.release("first")
        await soon(pool.acquire(claim("third")))
        assert [each.claim.session_id for each in pool.executors()] == ["third"]


async def test_a_claim_cancelled_while_its_executor_starts_leaves_nothing(folder: Path):
    async with pool_in(folder, max_executors=1) as (pool, side):
        for delay in (0.0, 0.001, 0.005, 0.01, 0.02):
            starting = asyncio.create_task(pool.acquire(claim("s")))
            await asyncio.sleep(delay)
            starting.cancel()
            await asyncio.wait((starting,))
            if not starting.cancelled() and starting.exception() is None:
                pool.release("s")
        environment = await soon(pool.acquire(claim("other")))
        assert await environment.is_healthy()
    assert {ending.survivors for ending in side.endings} == {0}
    assert left_in(folder) == []


async def test_an_executor_that_dies_is_told_with_its_signal_and_the_next_claim_gets_another(
    folder: Path,
):
    async with pool_in(folder) as (pool, side):
        first = await soon(pool.acquire(claim("s")))
        task = asyncio.create_task(run(first, [{"text": "x"}, {"crash": 9}]))
        await side.until(lambda: side.endings)
        with pytest.raises(Disconnected):
            await soon(task)
        ending = side.endings[0]
        assert (ending.signal, ending.exit_code, ending.survivors) == (9, None, 0)
        assert "task_started" in ending.stderr_tail
        assert "SIGKILL" in ending.error().message
        second = await soon(pool.acquire(claim("s")))
        assert second.executor_id != first.executor_id
        assert (await run(second, [{"text": "y"}], "t2")).status == "completed"


async def test_a_hung_executor_is_told_from_a_busy_one_and_replaced(folder: Path):
    async with pool_in(folder, ping_interval=0.05, ping_timeout=3) as (pool, side):
        busy = await soon(pool.acquire(claim("busy")))
        hung = await soon(pool.acquire(claim("hung")))
        flood = asyncio.create_task(run(busy, [{"flood": {"events": 20_000, "bytes": 200}}], "f"))
        assert hung.info is not None
        os.kill(hung.info.pid, signal.SIGSTOP)
        await side.until(lambda: side.endings)
        assert [ending.session_id for ending in side.endings] == ["hung"]
        assert "did not answer for 3 s" in side.endings[0].in_words
        assert (await soon(flood)).status == "completed"
        assert await (await soon(pool.acquire(claim("hung")))).is_healthy()


async def test_a_cut_connection_is_made_again_and_nothing_is_lost(folder: Path):
    async with pool_in(folder) as (pool, side):
        side.acknowledge = False
        environment = await soon(pool.acquire(claim("s")))
        asking = asyncio.create_task(
            run(environment, [{"text": "one"}, {"delay_ms": 200}, {"text": "two"}])
        )
        await side.until(lambda: side.events["task"])
        assert environment._peer is not None
        environment._peer.abort()
        await asyncio.wait((asking,))
        await side.until(lambda: side.events["task"][-1].event_type == "task_result")
        assert sorted(set(side.sequences("task"))) == list(
            range(1, max(side.sequences("task")) + 1)
        )
        assert "two" in side.text("task")


async def test_the_wall_time_ends_an_executor_and_says_so(folder: Path):
    async with pool_in(folder, limits=ResourceLimits(wall_time=0.3)) as (pool, side):
        await soon(pool.acquire(claim("s")))
        await side.until(lambda: side.endings)
        assert "execution.limits.wall_time" in side.endings[0].in_words


async def test_a_closed_pool_refuses_and_leaves_nothing(folder: Path):
    files = open_files()
    async with pool_in(folder) as (pool, _):
        environment = await soon(pool.acquire(claim("s")))
        pids = tree_of(environment)
        await soon(pool.close(drain=True))
        with pytest.raises(PoolClosed):
            await pool.acquire(claim("t"))
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert open_files() == files


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{runtime}/executors/all.sock", "no {id}"),
        ("{runtime}/{nonsense}/{id}", "no template"),
    ],
)
async def test_a_template_that_cannot_work_is_refused(folder: Path, template: str, why: str):
    with pytest.raises(BadInput, match=why):
        PoolSettings(runtime=folder, socket_path_template=template)


async def test_where_sockets_of_executors_fit_those_of_launchers_do(folder: Path):
    async with pool_in(folder) as (pool, _):
        folders = pool._parts.folders
        longest = len(str(folders.executor("0" * ID_LENGTH).socket_path))
        for launchers in (folders.launchers, folders.preloaded_launchers):
            assert len(str(launchers / f"{'n' * ID_LENGTH}.sock")) <= longest


async def test_sockets_where_others_could_reach_them_are_refused(folder: Path):
    shared = folder / "shared"
    shared.mkdir(mode=0o755)
    with pytest.raises(BadInput, match="entered by others"):
        async with pool_in(folder, socket_path_template=f"{shared}/{{id}}.sock"):
            pass


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only a cgroup limits a whole executor, and making one needs root"
)
async def test_an_executor_that_cannot_come_up_is_an_error_that_says_why(folder: Path):
    # So little that not even its first page fits: what it shares with the launcher is not counted.
    limits = ResourceLimits(memory=4096)
    async with pool_in(folder, limits=limits, connection_timeout=3.0) as (pool, side):
        with pytest.raises(ExecutorFailed, match=r"killed for using more than .* of memory"):
            await soon(pool.acquire(claim("s")))
    assert {ending.survivors for ending in side.endings} == {0}
    assert left_in(folder) == []


async def test_sockets_are_where_the_template_says(folder: Path):
    (folder / "mine").mkdir(mode=0o700)
    template = f"{folder}/mine/agent-{{id}}.socket"
    async with pool_in(folder, socket_path_template=template) as (pool, _):
        environment = await soon(pool.acquire(claim("s")))
        assert (folder / "mine" / f"agent-{environment.executor_id}.socket").is_socket()
        assert await environment.is_healthy()
    assert list((folder / "mine").iterdir()) == []


async def test_an_executor_that_gives_no_first_answer_in_time_is_given_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    create = ExecutorFolder.create

    def deaf(self: ExecutorFolder, ours: ExitStack) -> list[int]:
        """Hand over another socket than the one that is connected to, which nobody serves."""
        listener, *rest = create(self, ours)
        served = ours.enter_context(socket.socket(socket.AF_UNIX))
        served.bind("")
        served.listen()
        kept.callback(os.close, os.dup(listener))
        return [served.fileno(), *rest]

    async with pool_in(folder, connection_timeout=0.3, stop_timeout=0.3) as (pool, side):
        first = await soon(pool.acquire(claim("first")))
        with ExitStack() as kept, monkeypatch.context() as patched:
            patched.setattr(ExecutorFolder, "create", deaf)
            with pytest.raises(AgorError):
                await soon(pool.acquire(claim("second")))
        assert side.endings[-1].session_id == "second"
        assert side.endings[-1].survivors == 0
        assert await first.is_healthy()
    assert left_in(folder) == []
