"""Canaries: keys that are stored, used, rotated and deleted, and are then looked for in clear."""

from __future__ import annotations

import asyncio
import json
import secrets
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import httpx
import msgspec
import pytest

from agor.cli.canary import Canary
from agor.client import Client
from agor.leaks import Seeker
from tests.integration.daemon.daemon_process import PATIENCE, DaemonProcess, running_daemon
from tests.store.postgres_server import PostgresServer

LOUD = {"log.level": "debug"}


@pytest.fixture(params=["sqlite", "postgresql"])
async def daemon(request: pytest.FixtureRequest) -> AsyncIterator[DaemonProcess]:
    settings = dict(LOUD)
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        settings["database.url"] = await server.empty_database()
    with running_daemon(settings, cold=True) as one:
        one.database = request.param  # type: ignore[attr-defined]
        yield one


class Watch:
    """Looks for several canaries at once."""

    def __init__(self) -> None:
        self._seekers: list[Seeker] = []

    def new(self) -> str:
        """Make up a key, and look for it from now on."""
        value = secrets.token_urlsafe(36)
        self._seekers.append(Seeker(value))
        return value

    def look_at(self, where: str, data: bytes) -> None:
        for each in self._seekers:
            each.look_at(where, data)

    def look_around(self, *folders: Path) -> None:
        for each in self._seekers:
            each.look_at_processes()
            for folder in folders:
                each.look_below(folder)

    def assert_unseen(self) -> None:
        assert [leak for each in self._seekers for leak in each.leaks] == []
        for each in self._seekers:
            assert each.seen["files"] > 5
            assert each.seen["environments"] > 1


async def hold(client: Client, folder: Path, name: str) -> tuple[str, str]:
    """Have a task fetch a key, and a program run beside it that prints all it can see."""
    session = (await client.create_session("scripted", folder)).session_id
    seeing = "env; cat /proc/$PPID/environ /proc/$PPID/cmdline; echo; echo all; exec sleep 1000"
    script = [{"key": name}, {"text": "I have it."}, {"run": ["sh", "-c", seeing]}]
    task = (await client.prompt(session, json.dumps(script))).task_id
    async with asyncio.timeout(PATIENCE), client.follow(session) as feed:
        fetched = False
        async for event in feed:
            fetched = fetched or (event.type == "log" and name in str(event.data))
            if event.type == "block_delta" and "all\n" in event.data["text"]:
                break
            assert not (event.type == "task" and event.data["ended_at"]), event.data
    assert fetched
    return session, task


async def test_a_canary_appears_nowhere_in_clear(
    daemon: DaemonProcess, folder: Path, request: pytest.FixtureRequest
):
    watch, places = Watch(), [daemon.home.folder, folder]
    postgresql = daemon.database == "postgresql"  # type: ignore[attr-defined]
    if postgresql:
        places.append(request.getfixturevalue("postgres").data)
    async with daemon.client() as client:
        # Stored, replaced, for the team; used while it is held; rotated; used again.
        for name, team in (("OWN", False), ("TEAM", True), ("OWN", False)):
            await client.credentials.set(name, watch.new(), team=team, base_url="https://x.example")
        tasks = [await hold(client, folder, name) for name in ("OWN", "TEAM")]
        watch.look_around(*places)
        await client.credentials.rotate()
        async with asyncio.timeout(PATIENCE):
            while (await client.credentials.rotation()).status == "running":
                pass
        # Killed while tasks hold the keys, and taken back.
        await asyncio.to_thread(daemon.kill)
        watch.look_around(*places)
        await asyncio.to_thread(daemon.start)
        tasks.append(await hold(client, folder, "OWN"))
        await _copy(daemon)
        await _provoke(daemon, watch)
        for session, task in tasks:
            await client.stop_task(task)
            await client.wait_task(task, timeout=PATIENCE)
            watch.look_at("messages", msgspec.json.encode(await client.messages(session)))
            watch.look_at("task", msgspec.json.encode(await client.task(task)))
        watch.look_at("list", msgspec.json.encode(await client.credentials.list()))
        await client.credentials.delete("OWN")
        await client.credentials.delete("TEAM", team=True)
        if postgresql:
            await _checkpoint(request.getfixturevalue("postgres"))
        watch.look_around(*places)
    await asyncio.to_thread(daemon.stop)
    watch.look_around(*places)
    watch.look_at("the log", daemon.log.encode())
    watch.assert_unseen()


async def _copy(daemon: DaemonProcess) -> None:
    """Make a backup, as people do."""
    path = daemon.home.folder / "agor.db"
    if path.exists():
        with sqlite3.connect(path) as now, sqlite3.connect(f"{path}.bak") as copy:
            now.backup(copy)
        now.close()
        copy.close()


async def _checkpoint(server: PostgresServer) -> None:
    connection = await asyncpg.connect(server.url("postgres"))
    await connection.execute("CHECKPOINT")
    await connection.close()


async def _provoke(daemon: DaemonProcess, watch: Watch) -> None:
    """Offer keys in ways that are refused."""
    headers = {"authorization": f"Bearer {daemon.token}"}
    async with httpx.AsyncClient(base_url=daemon.url, headers=headers, trust_env=False) as http:
        for _ in range(3):
            value = watch.new()
            for body in ([value], {"value": "x", value: 1}, {"value": f"{value} "}, {value: value}):
                answer = await http.put("/credentials/WRONG", json=body)
                assert answer.status_code == 422
                watch.look_at("answer", answer.content)


# ── the command ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def quiet_daemon() -> Iterator[DaemonProcess]:
    with running_daemon(cold=True) as one:
        yield one


async def test_the_command_finds_nothing_where_nothing_is_and_leaves_nothing(
    quiet_daemon: DaemonProcess,
):
    findings = [each async for each in Canary(quiet_daemon.home, []).fly()]
    assert {each.state for each in findings} == {"ok"}
    assert [each.name for each in findings] == [
        "canary", "files", "command lines", "environments", "answers",
    ]  # fmt: skip
    async with quiet_daemon.client() as client:
        assert await client.credentials.list() == []
        assert [each async for each in client.sessions()] == []


@pytest.mark.parametrize("place", ["home", "also", "argument"])
async def test_the_command_finds_what_is_planted(
    quiet_daemon: DaemonProcess, folder: Path, place: str
):
    canary = Canary(quiet_daemon.home, [folder])
    holder = None
    if place == "home":
        (quiet_daemon.home.folder / "logs" / "leaky.log").write_text(f"key={canary._value}")
    elif place == "also":
        (folder / "dump").write_bytes(canary._value.encode().hex().encode())
    else:
        holder = await asyncio.create_subprocess_exec(
            "sh", "-c", "read line", "sh", canary._value, stdin=asyncio.subprocess.PIPE
        )
    findings = [each async for each in canary.fly()]
    if holder is not None:
        await holder.communicate(b"\n")
    found = [each.what for each in findings if each.state == "problem"]
    wanted = {
        "home": "logs/leaky.log (as it is)",
        "also": "dump (hexadecimal)",
        "argument": "/cmdline (as it is)",
    }
    assert len(found) == 1
    assert found[0].endswith(wanted[place])
    assert canary._value not in str(findings)


async def test_a_command_whose_task_cannot_run_says_so_and_cleans_up(quiet_daemon: DaemonProcess):
    canary = Canary(quiet_daemon.home, [])
    real = canary._store

    async def store(http: httpx.AsyncClient) -> None:
        await real(http)
        canary._workspace.rmdir()

    canary._store = store  # type: ignore[method-assign]
    with pytest.raises(Exception, match="workspace"):
        _ = [each async for each in canary.fly()]
    async with quiet_daemon.client() as client:
        assert await client.credentials.list() == []
