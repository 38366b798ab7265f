"""Whatever goes wrong around a task, it ends, and its session goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from agor.client import Client
from agor.daemon.pool.ending import UNKNOWN
from agor.daemon.pool.pool import Pool
from agor.errors import StoreDamaged, StoreError, StoreUnavailable, TimedOut
from agor.linux import children
from agor.protocol.api import TaskStop
from agor.protocol.methods import ExecutePromptParams, StopTaskResult
from tests.contract.waiting import until
from tests.integration.daemon.asker import Asker, acting, nothing
from tests.integration.daemon.client_steps import begin, say, to_the_end
from tests.integration.daemon.daemon_process import running_daemon
from tests.integration.daemon.gate import RUNNING, STOPPING, Gate, fail_once
from tests.integration.daemon.hostile import Act, Hostile
from tests.integration.daemon.in_process import ENDED, PATIENCE, Desk, desk_in, soon
from tests.integration.shortages import no_more_files


async def until_done(client: Client, task_id: str) -> None:
    """Wait for the end of a task, whatever it is."""
    async with asyncio.timeout(PATIENCE):
        while (await client.task(task_id)).status not in ENDED:
            await asyncio.sleep(0.01)


async def goes_on(desk: Desk, session: str) -> None:
    """The session's next task is done."""
    again = await desk.ended(session, await desk.prompt(session, "again"))
    assert again.status == "completed", again.error


# ── executors that are not there when they are needed ────────────────────────────────────────


@pytest.mark.parametrize("who", ["daemon", "launcher"])
async def test_an_accepted_prompt_waits_while_files_have_run_out(who: str):
    """With nothing left to open, no executor can be started; the prompt waits until one can."""
    if who == "daemon" and os.geteuid() != 0:
        pytest.skip("only root can look into the daemon, which cannot be dumped")
    with running_daemon({"execution.spare_executors": 0}) as daemon:
        async with daemon.client() as client:
            first, second = await begin(client), await begin(client)
            feed = client.follow(first)
            await to_the_end(feed, await say(client, first, {"text": "warm"}))
            (launcher,) = daemon.launchers()
            # It forks a keeper ahead, which needs files as well.
            await until(lambda: len(children(launcher.pid)) == 2)
            # Enough for clients, and too few for an executor: its socket, its log, its report.
            short = no_more_files(daemon.pid, but=2) if who == "daemon" else None
            with short or no_more_files(launcher.pid):
                task = await say(client, second, {"text": "late"})
                await until(lambda: "task_delayed" in daemon.log)
                assert (await client.task(task)).status == "dispatching"
            await until_done(client, task)
            assert (await client.task(task)).status == "completed"


async def test_an_executor_that_ends_while_a_task_is_bound_to_it_fails_the_task(folder: Path):
    async with desk_in(folder, acting(nothing)) as desk:
        session = await desk.session()
        gate = Gate(desk.daemon.store)
        gate.hold(RUNNING)
        task = await desk.prompt(session, "x")
        await soon(gate.reached.wait())
        await soon(desk.daemon.executors.stop(session, "somebody ended it"))
        gate.lift()
        assert (await desk.ended(session, task)).status == "failed"
        await goes_on(desk, session)


async def test_an_executor_that_is_killed_while_a_task_is_bound_to_it_fails_the_task(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        gate = Gate(desk.daemon.store)
        gate.hold(RUNNING)
        task = await desk.prompt(session, "x")
        await soon(gate.reached.wait())
        assert isinstance(desk.daemon.executors, Pool)
        (pooled,) = desk.daemon.executors.executors()
        assert pooled._family is not None
        os.kill(pooled._family.executor.pid, signal.SIGKILL)
        await soon(asyncio.shield(pooled.ended))
        gate.lift()
        ended = await desk.ended(session, task)
        assert ended.status == "failed"
        assert ended.error is not None
        assert ended.error.code == "executor_failed"
        await goes_on(desk, session)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (TimedOut("no answer to spawn within 10 s"), "timed_out"),
        (OSError(24, "Too many open files"), "internal_error"),
    ],
    ids=["timed_out", "out_of_descriptors"],
)
async def test_an_executor_that_cannot_be_started_fails_its_task(
    folder: Path, fault: Exception, code: str
):
    async with desk_in(folder, acting()) as desk:
        session = await desk.session()
        fail_once(desk.daemon.executors, "acquire", fault)
        ended = await desk.ended(session, await desk.prompt(session, "x"))
        assert (ended.status, ended.error and ended.error.code) == ("failed", code)
        await goes_on(desk, session)


# ── events that no database can hold ─────────────────────────────────────────────────────────


async def say_what_cannot_be_stored(executor: Hostile, params: ExecutePromptParams) -> None:
    executor.report(params, 1, {"level": "info", "message": "poison"})


async def say_it_and_end(executor: Hostile, params: ExecutePromptParams) -> None:
    await say_what_cannot_be_stored(executor, params)
    executor.end(params, 2)


async def say_it_and_lie(executor: Hostile, params: ExecutePromptParams) -> None:
    await say_what_cannot_be_stored(executor, params)
    executor.report(params, 9)


@pytest.mark.parametrize(
    ("act", "ends"),
    [
        (say_what_cannot_be_stored, {"failed"}),
        # The end is in the line behind it, and can be stored.
        (say_it_and_end, {"failed"}),
        (say_it_and_lie, {"failed"}),
    ],
)
async def test_what_can_never_be_stored_ends_its_task_only(folder: Path, act: Act, ends: set[str]):
    async with desk_in(folder, acting(act)) as desk:
        session = await desk.session()
        gate = Gate(desk.daemon.store)
        gate.refuse("poison", error=StoreError)
        ended = await desk.ended(session, await desk.prompt(session, "x"))
        assert gate.reached.is_set()
        assert ended.status in ends
        await goes_on(desk, session)


async def test_a_task_whose_end_can_never_be_stored_leaves_its_executor_to_others(folder: Path):
    async with desk_in(folder, execution__max_executors=1) as desk:
        hurt, other = await desk.session(), await desk.session()
        gate = Gate(desk.daemon.store)
        task = await desk.prompt(hurt, [{"text": "hello"}, {"run": ["cat", "go"]}])
        # Where its session's feed goes on, the database is damaged.
        gate.refuse(task, error=StoreDamaged)
        waiting = await desk.prompt(other, "hello")
        await soon(gate.reached.wait())
        assert (await desk.ended(other, waiting)).status == "completed"


async def test_events_after_the_end_are_acknowledged_though_the_store_could_not_be_read(
    folder: Path,
):
    """Else the executor would keep them, and what it keeps is bounded."""
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        executor, params = await asker.task_of(desk)
        executor.end(params, 1)
        await desk.ended(params.session_id, params.task_id)
        failed = fail_once(desk.daemon.store, "read", StoreUnavailable("for a moment"))
        executor.report(params, 2)
        async with asyncio.timeout(10):
            while (params.task_id, 2) not in executor.acknowledged:
                await asyncio.sleep(0.001)
        assert failed.is_set()


# ── stops ────────────────────────────────────────────────────────────────────────────────────


async def test_a_stop_that_meets_the_end_of_its_task_spares_the_next_one(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        executor, params = await asker.task_of(desk)
        session, task = params.session_id, params.task_id
        run = desk.daemon.runs.get(task)
        assert run is not None
        assert run.environment is not None
        asked, answer = asyncio.Event(), asyncio.Event()

        async def stop_slowly(*_: object) -> StopTaskResult:
            asked.set()
            await answer.wait()
            return StopTaskResult(stopped=False, message="it is completed already")

        run.environment.stop_task = stop_slowly  # type: ignore[method-assign, assignment]
        after = await desk.prompt(session, "the next one")
        gate = Gate(desk.daemon.store)
        gate.hold(STOPPING)
        stopping = asyncio.create_task(desk.daemon.task_stops.stop(desk.who, task, TaskStop()))
        await soon(gate.reached.wait())
        # It ends by itself while the stop is on its way to the disk.
        executor.end(params, 1)
        async with asyncio.timeout(10):
            while run.result is None:
                await asyncio.sleep(0.001)
        gate.lift()
        assert (await soon(stopping)).status == "stopping"
        await soon(asked.wait())
        await soon(run.live.channel.line.flushed())
        assert (await desk.task(task)).status == "stopping"
        assert (await desk.task(after)).status == "queued"
        answer.set()
        assert (await desk.ended(session, task)).status in ("completed", "stopped")
        executor, params = await asker.next()
        assert params.task_id == after
        # Whatever of the stop was still to come has come.
        async with asyncio.timeout(10):
            while desk.daemon.stopper._stops:
                await asyncio.sleep(0.001)
        executor.end(params, 1)
        assert (await desk.ended(session, after)).status == "completed"


async def test_a_stop_whose_executor_cannot_be_ended_says_that_it_does_not_know(folder: Path):
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        _, params = await asker.task_of(desk)
        fault = OSError(24, "Too many open files")
        failed = fail_once(desk.daemon.executors, "stop", fault)
        await soon(desk.daemon.task_stops.stop(desk.who, params.task_id, TaskStop()))
        ended = await desk.ended(params.session_id, params.task_id)
        assert failed.is_set()
        assert (ended.status, ended.survivors) == ("stopped", UNKNOWN)
        after = await desk.prompt(params.session_id, "the next one")
        executor, params = await asker.next()
        executor.end(params, 1)
        assert (await desk.ended(params.session_id, after)).status == "completed"
