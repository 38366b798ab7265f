"""The daemon ends in order: clients are told, executors go on or end, and all is stored."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import websockets
from websockets.exceptions import ConnectionClosed

from agor.client import Client
from agor.config.keys import build
from agor.daemon import process
from agor.home import Home
from agor.linux import is_alive
from tests.contract.waiting import until
from tests.integration.daemon.daemon_process import DaemonProcess, running_daemon
from tests.integration.daemon.in_process import soon

SLOWLY = [step for n in range(200) for step in ({"text": f"word{n} "}, {"delay_ms": 10})]


async def begin(client: Client, folder: Path) -> tuple[str, str]:
    made = await soon(client.create_session("scripted", str(folder)))
    accepted = await soon(client.prompt(made.session_id, json.dumps(SLOWLY)))
    async with asyncio.timeout(30):
        async for event in client.follow(made.session_id):
            if event.type == "block_delta" and event.data["text"] == "word3 ":
                break
    return made.session_id, accepted.task_id


async def test_executors_go_on_and_the_next_daemon_has_every_word(folder: Path):
    with running_daemon() as daemon:
        async with daemon.client() as client:
            session, task_id = await begin(client, folder)
            (executor,) = daemon.executors()
            await asyncio.to_thread(daemon.stop)
            assert is_alive(executor.executor)
            await asyncio.to_thread(daemon.start)
            async with asyncio.timeout(60):
                assert (await client.wait_task(task_id)).status == "completed"
            texts: list[str] = []
            cursor = None
            while True:
                page = await soon(client.messages(session, cursor=cursor, limit=200))
                texts[:0] = [message.text for message in page.items if message.kind == "text"]
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert texts == [f"word{n} " for n in range(200)]


async def test_with_drain_nothing_is_left_and_the_task_says_why(folder: Path):
    with running_daemon({"daemon.drain_on_stop": True, "execution.stop_timeout_ms": 200}) as daemon:
        async with daemon.client() as client:
            _, task_id = await begin(client, folder)
            await asyncio.to_thread(daemon.stop)
            await asyncio.to_thread(daemon.wait_only)
            await asyncio.to_thread(daemon.start)
            task = await soon(client.task(task_id))
            assert task.status == "stopped"
            assert task.error is not None
            assert "the daemon is shutting down" in task.error.message


async def test_with_drain_also_what_was_taken_back_ends_with_its_question(folder: Path):
    ask = [{"tool": {"name": "Write", "input": {}, "output": "done", "ask": True}}]
    with running_daemon({"daemon.drain_on_stop": True}) as daemon:
        async with daemon.client() as client:
            made = await soon(client.create_session("scripted", str(folder)))
            accepted = await soon(client.prompt(made.session_id, json.dumps(ask)))
            async with asyncio.timeout(30):
                async for event in client.follow(made.session_id):
                    if event.type == "permission":
                        break
            await asyncio.to_thread(daemon.kill)
            await asyncio.to_thread(daemon.start)
            await asyncio.to_thread(daemon.stop)
            await asyncio.to_thread(daemon.wait_only)
            await asyncio.to_thread(daemon.start)
            assert (await soon(client.task(accepted.task_id))).status == "stopped"
            assert [each async for each in client.permissions(status="pending")] == []


async def test_who_follows_is_told_to_come_back(folder: Path):
    with running_daemon() as daemon:
        async with daemon.client() as client:
            session, _ = await begin(client, folder)
        address = daemon.url.replace("http", "ws") + f"/sessions/{session}/events?after=0"
        headers = {"Authorization": f"Bearer {daemon.token}"}
        async with websockets.connect(address, additional_headers=headers) as socket:
            await soon(socket.recv())
            os.kill(daemon.pid, signal.SIGTERM)
            with pytest.raises(ConnectionClosed) as cut:
                await soon(_read_to_the_end(socket))
        assert cut.value.rcvd is not None
        assert cut.value.rcvd.code == 1012
        assert await asyncio.to_thread(daemon.wait_ended) == 0


async def _read_to_the_end(socket: websockets.ClientConnection) -> None:
    while True:
        await socket.recv()


async def test_nobody_is_sent_to_its_port_once_that_may_be_anothers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """It lives on after it listened: clients would show their token to who listens there then."""
    home = Home(folder / "home")
    described: list[bool] = []

    @contextlib.asynccontextmanager
    async def serving(*_: object) -> AsyncIterator[str]:
        yield "http://127.0.0.1:3030"
        described.append(home.description_file.exists())
        # Time for whoever believes that it has not started yet.
        await asyncio.sleep(0)
        described.append(home.description_file.exists())

    monkeypatch.setattr(process, "Daemon", lambda *_: SimpleNamespace(serving=serving))
    with home.lock():
        running = asyncio.create_task(process._serve(build({}), home, "127.0.0.1", 3030))
        await until(home.description_file.exists)
        os.kill(os.getpid(), signal.SIGTERM)
        await soon(running)
    assert described == [False, False]


async def test_a_daemon_with_a_stuck_client_still_ends(folder: Path):
    with running_daemon({"daemon.stop_timeout_ms": 1000}) as daemon:
        async with daemon.client() as client:
            session, _ = await begin(client, folder)
            await soon(
                client.prompt(session, json.dumps([{"flood": {"events": 30000, "bytes": 500}}]))
            )
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port, limit=1)
        writer.write(
            f"GET /sessions/{session}/events?after=0 HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {daemon.token}\r\n\r\n".encode()
        )
        await soon(reader.readexactly(1))
        os.kill(daemon.pid, signal.SIGTERM)
        assert await asyncio.to_thread(daemon.wait_ended) == 0
        writer.close()


async def test_the_direct_path_is_a_setting_away(folder: Path):
    with running_daemon() as daemon:
        daemon.configure({"execution.use_executor": False})
        await asyncio.to_thread(daemon.restart)
        async with daemon.client() as client:
            session, task_id = await begin(client, folder)
            assert daemon.executors() == []
            health = await soon(client.health())
            details = {check.name: check.detail for check in health.checks}
            assert "inside the daemon" in details["executors"]
            await soon(client.stop_task(task_id))
            async with asyncio.timeout(30):
                assert (await client.wait_task(task_id)).status == "stopped"
            again = await soon(client.prompt(session, "again"))
            async with asyncio.timeout(30):
                assert (await client.wait_task(again.task_id)).status == "completed"


def test_a_second_daemon_on_one_home_is_refused(folder: Path):
    with running_daemon() as daemon:
        second = DaemonProcess(daemon.home.folder)
        try:
            second.launch()
            assert second.wait_ended() == 1
            assert f"another daemon serves {daemon.home.folder} already" in second.log
        finally:
            second.clean_up()
        assert daemon.running
