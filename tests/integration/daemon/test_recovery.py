"""A daemon that is killed and started again: what it takes back keeps to the rules as before."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agor.client import Client
from agor.linux import is_alive, process_of
from tests.integration.daemon.daemon_process import DaemonProcess, kill, running_daemon
from tests.integration.daemon.in_process import soon

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
            await asyncio.to_thread(daemon.wait_only, itself)
