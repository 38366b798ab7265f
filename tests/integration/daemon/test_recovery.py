"""A daemon that is killed and started again: what it takes back keeps to the rules as before."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from agor.client import Client
from agor.daemon.pool.direct import DirectExecutors
from agor.daemon.pool.settings import Claim
from agor.execution import ExecutionEnvironment
from agor.linux import is_alive, process_of
from tests.integration.daemon.asker import Asker
from tests.integration.daemon.daemon_process import DaemonProcess, kill, running_daemon
from tests.integration.daemon.in_process import desk_in, soon
from tests.integration.daemon.key_desk import ANN, BOB, KeyDesk, invite

#: Words for longer than any of these tests takes.
SLOWLY = [step for n in range(6000) for step in ({"text": f"word{n} "}, {"delay_ms": 20})]


async def begin(client: Client, folder: Path, script: Any, word: str) -> tuple[str, str]:
    """Begin a task, and wait until its agent has said a word."""
    made = await soon(client.create_session("scripted", str(folder)))
    accepted = await soon(client.prompt(made.session_id, json.dumps(script)))
    async with asyncio.timeout(30):
        async for event in client.follow(made.session_id):
            if event.type == "block_delta" and event.data["text"].strip() == word:
                break
    return made.session_id, accepted.task_id


def ask_database(daemon: DaemonProcess, sql: str) -> list[Any]:
    database = sqlite3.connect(daemon.home.folder / "agor.db")
    try:
        with database:
            return database.execute(sql).fetchall()
    finally:
        database.close()


async def test_a_token_that_expired_while_there_was_no_daemon_ends_its_task(folder: Path):
    with running_daemon({"execution.stop_timeout_ms": 500}) as daemon:
        async with daemon.client() as client:
            _, task_id = await begin(client, folder, SLOWLY, "word3")
            (executor,) = daemon.executors()
            await asyncio.to_thread(daemon.kill)
            ask_database(daemon, "UPDATE tokens SET expires_at = 1")
            await asyncio.to_thread(daemon.start)
            async with asyncio.timeout(30):
                task = await client.wait_task(task_id)
            assert task.status == "failed"
            assert task.error is not None
            assert "session token has expired" in task.error.message
            assert not is_alive(executor.executor)


@pytest.mark.parametrize("restart", [False, True], ids=["same daemon", "next daemon"])
async def test_what_an_agent_calls_its_conversation_outlives_its_executor(
    folder: Path, restart: bool
):
    with running_daemon() as daemon:
        async with daemon.client() as client:
            session, task_id = await begin(client, folder, SLOWLY, "word3")
            if restart:
                await asyncio.to_thread(daemon.kill)
                await asyncio.to_thread(daemon.start)
            (executor,) = daemon.executors()
            assert kill(executor.executor)
            async with asyncio.timeout(30):
                assert (await client.wait_task(task_id)).status == "failed"
            known = ask_database(daemon, "SELECT agent_session_id FROM sessions")
            assert known == [(f"scripted-{session}",)]


async def test_a_daemon_that_is_configured_otherwise_leaves_no_agent_at_work(folder: Path):
    with running_daemon() as daemon:
        async with daemon.client() as client:
            script = [{"text": "begin"}, {"run": ["sleep", "600"]}]
            _, task_id = await begin(client, folder, script, "begin")
            (executor,) = daemon.executors()
            await asyncio.to_thread(daemon.kill)
            daemon.configure({"execution.use_executor": False})
            await asyncio.to_thread(daemon.start)
            async with asyncio.timeout(30):
                assert (await client.wait_task(task_id)).status in ("failed", "stopped")
            assert not is_alive(executor.executor)
            itself = process_of(daemon.pid)
            assert itself is not None
            await asyncio.to_thread(daemon.wait_only, itself, *daemon.writers())


@pytest.mark.parametrize("disabled", [False, True])
async def test_a_task_that_no_executor_has_heard_of_is_told_to_one_of_its_own_unix_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch, disabled: bool
):
    """As if the daemon had been killed between storing who has the task and telling them."""
    bob = msgspec.structs.replace(BOB, unix_username="bob-on-this-machine")
    await invite(folder, ANN, bob)
    asker = Asker()
    async with desk_in(folder, asker.make) as desk:
        executor, params = await KeyDesk(desk, asker, bob).task()
        executor.end(params, 1)
        await desk.ended(params.session_id, params.task_id)
    with sqlite3.connect(folder / "home" / "agor.db") as database:
        database.execute("UPDATE tasks SET status = 'running', executor_id = 'it', result = NULL")
        database.execute("UPDATE tasks SET received = 0, ended_at = NULL")
        database.execute(
            "UPDATE users SET disabled_at = ? WHERE user_id = 'bob'", (disabled or None,)
        )
    claims: list[Claim] = []
    acquire = DirectExecutors.acquire

    async def taken_back(_: DirectExecutors) -> list[Any]:
        theirs = Claim(session_id="theirs", user_id="bob")
        pooled = SimpleNamespace(executor_id="it", environment=None, claim=theirs)
        return [SimpleNamespace(pooled=pooled, tasks=[])]

    async def watched(executors: DirectExecutors, claim: Claim) -> ExecutionEnvironment:
        claims.append(claim)
        return await acquire(executors, claim)

    monkeypatch.setattr(DirectExecutors, "open", taken_back)
    monkeypatch.setattr(DirectExecutors, "acquire", watched)
    async with desk_in(folder, asker.make) as desk:
        if disabled:
            assert (await desk.ended(params.session_id, params.task_id)).status == "failed"
            assert claims == []
        else:
            _, again = await asker.next()
            assert again.task_id == params.task_id
            assert [claim.unix_username for claim in claims] == ["bob-on-this-machine"]
