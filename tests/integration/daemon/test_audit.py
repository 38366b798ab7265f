"""What a daemon writes into its audit log, whatever happens to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from agor.client import Client
from agor.daemon.services.audit import anchoring
from agor.daemon.services.audit import log as audit_log
from agor.daemon.services.audit.anchors import MOST, Anchor, AnchorFile
from agor.daemon.store import audit
from agor.daemon.store.rows import AuditRow
from agor.errors import AgorError, TokenRefused
from agor.protocol.audit import AuditEntry, AuditVerification
from agor.protocol.methods import ExecutePromptParams
from tests.integration.daemon.asker import acting, ask_for_key
from tests.integration.daemon.daemon_process import DaemonProcess, running_daemon
from tests.integration.daemon.hostile import Hostile
from tests.integration.daemon.in_process import Desk, desk_in, soon

KILLS = 5


async def rows(desk: Desk, action: str = "") -> list[AuditRow]:
    found = await audit.behind(desk.daemon.store, 0, 10_000)
    return [row for row in found if row.action.startswith(action)]


async def verified(desk: Desk) -> AuditVerification:
    return await soon(desk.daemon.audit.verify(desk.who, None))


def anchors_in(folder: Path) -> AnchorFile:
    return AnchorFile(folder / "home" / "audit.anchors")


async def all_entries(client: Client) -> list[AuditEntry]:
    return [entry async for entry in client.audit.entries()][::-1]


# ── executors ────────────────────────────────────────────────────────────────────────────────


async def test_an_executor_is_in_the_log_from_its_start_to_how_it_ended(folder: Path):
    async with desk_in(folder) as desk:
        session = await desk.session()
        await desk.ended(session, await desk.prompt(session, "hello"))
        [started] = await rows(desk, "executor.")
        [running] = desk.daemon.executors.describe()
        assert started.action == "executor.started"
        assert (started.subject, started.session_id) == (running.executor_id, session)
        assert (started.actor_id, started.actor) == (desk.who.user_id, desk.who.name)
        entry = audit_log.entry_of(started)
        assert entry.detail["unix_user"] == running.unix_user
        pid = entry.detail["pid"]
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            while desk.daemon.executors.describe():
                await asyncio.sleep(0.01)
        [_, ended] = await rows(desk, "executor.")
        assert (ended.action, ended.subject) == ("executor.ended", running.executor_id)
        entry = audit_log.entry_of(ended)
        assert (entry.detail["pid"], entry.detail["signal"]) == (pid, signal.SIGKILL)
        assert "SIGKILL" in entry.detail["how"]
        assert entry.detail["survivors"] == 0
        assert (await verified(desk)).fault is None


async def test_an_executor_that_was_taken_back_is_started_once_and_ended_once(folder: Path):
    # The second daemon ends it: the first one leaves it enough time until that one is there.
    leaving: dict[str, Any] = {
        "daemon__drain_on_stop": "false",
        "execution__orphan_timeout_ms": 20_000,
    }
    async with desk_in(folder, **leaving) as desk:
        session = await desk.session()
        await desk.ended(session, await desk.prompt(session, "hello"))
    async with desk_in(folder) as desk:
        assert len(desk.daemon.executors.describe()) == 1
    async with desk_in(folder) as desk:
        found = [row.action for row in await rows(desk) if row.action != "session.made"]
        assert found == [
            "daemon.started", "executor.started", "daemon.stopped", "daemon.started",
            "executor.ended", "daemon.stopped", "daemon.started",
        ]  # fmt: skip


# ── session tokens that are refused ──────────────────────────────────────────────────────────


async def test_an_executor_that_floods_with_bad_tokens_does_not_fill_the_log(folder: Path):
    flooded = asyncio.Event()

    async def flood(executor: Hostile, params: ExecutePromptParams) -> None:
        for number in range(200):
            with contextlib.suppress(TokenRefused):
                await ask_for_key(executor, f"{number:043}")
        flooded.set()

    async with desk_in(folder, acting(flood)) as desk:
        session = await desk.session()
        await desk.prompt(session, "hello")
        await soon(flooded.wait())
        await soon(desk.daemon.refused_tokens.settled())
        [first] = await rows(desk, "session_token.")
        assert first.result == "refused"
        await desk.daemon.executors.stop(session, "enough")
        await soon(desk.daemon.refused_tokens.settled())
        noted = [audit_log.entry_of(row) for row in await rows(desk, "session_token.")]
        assert len(noted) == 2
        assert sum(entry.detail["times"] for entry in noted) == 200
        assert "not known" in noted[1].detail["why"]


async def test_a_token_that_is_refused_is_not_in_the_log_itself(folder: Path):
    shown = asyncio.Event()

    async def show(executor: Hostile, params: ExecutePromptParams) -> None:
        with contextlib.suppress(TokenRefused):
            await ask_for_key(executor, "secret-" * 7)
        shown.set()

    async with desk_in(folder, acting(show)) as desk:
        await desk.prompt(await desk.session(), "hello")
        await soon(shown.wait())
    data = b"".join(path.read_bytes() for path in (folder / "home").glob("agor.db*"))
    assert b"session_token.refused" in data
    assert b"secret-secret-" not in data


# ── anchors ──────────────────────────────────────────────────────────────────────────────────


async def test_there_is_an_anchor_at_the_start_and_at_the_end(folder: Path):
    async with desk_in(folder) as desk:
        [first] = anchors_in(folder).read()
        assert (first.number, first.hash) == await audit.head(desk.daemon.store)
    async with desk_in(folder) as desk:
        [_, second, third] = anchors_in(folder).read()
        assert await audit.hash_at(desk.daemon.store, second.number) == second.hash
        assert [row.action for row in await rows(desk)][second.number - 1] == "daemon.stopped"
        result = await verified(desk)
        assert (result.anchors, result.number) == (3, third.number)


async def test_while_records_come_there_is_one_now_and_then(folder: Path, monkeypatch):
    monkeypatch.setattr(anchoring, "_INTERVAL", 0.01)
    async with desk_in(folder) as desk:
        session = await desk.session()
        await desk.ended(session, await desk.prompt(session, "hello"))
        head = await audit.head(desk.daemon.store)
        assert head.number > 1
        async with asyncio.timeout(20):
            while anchors_in(folder).read()[-1].number < head.number:
                await asyncio.sleep(0.01)
        count = len(anchors_in(folder).read())
        # Nothing came since: nothing is noted.
        await desk.daemon.anchoring._anchor()
        assert len(anchors_in(folder).read()) == count


async def test_a_copy_of_the_database_that_was_put_back_is_said_and_does_not_stop_the_daemon(
    folder: Path,
):
    home, copy = folder / "home", folder / "copy"
    async with desk_in(folder):
        pass
    copy.mkdir()
    for path in home.glob("agor.db*"):
        shutil.copy(path, copy)
    async with desk_in(folder):
        pass
    for path in home.glob("agor.db*"):
        path.unlink()
    for path in copy.iterdir():
        shutil.copy(path, home)
    async with desk_in(folder) as desk:
        [noted] = await rows(desk, "audit.")
        assert (noted.action, noted.result) == ("audit.anchor_differs", "failed")
        health = desk.daemon.health()
        assert health.status == "ok"
        assert [check.name for check in health.checks if not check.ok] == ["audit"]
        result = await verified(desk)
        assert result.fault is not None
        assert result.fault.kind == "anchor"
        # As the hint says: whoever put the copy back keeps the old anchors elsewhere.
        anchors_in(folder).path.rename(folder / "audit.anchors.old")
    async with desk_in(folder) as desk:
        assert (await verified(desk)).fault is None
        assert len(await rows(desk, "audit.")) == 1
        assert all(check.ok for check in desk.daemon.health().checks)


async def test_a_log_that_is_changed_under_a_daemon_is_noticed_by_it(folder: Path, monkeypatch):
    monkeypatch.setattr(anchoring, "_INTERVAL", 0.01)
    async with desk_in(folder) as desk:
        other = sqlite3.connect(folder / "home" / "agor.db")
        other.execute("DROP TRIGGER audit_keeps_what_it_has")
        other.execute("UPDATE audit SET hash = x'00' WHERE number = 1")
        other.commit()
        other.close()
        async with asyncio.timeout(20):
            while desk.daemon.anchoring.fault is None:
                await asyncio.sleep(0.01)
        assert (await verified(desk)).fault is not None


async def test_a_file_with_too_many_anchors_is_thinned_out_but_for_those_that_differ(folder: Path):
    async with desk_in(folder) as desk:
        head = await audit.head(desk.daemon.store)
    file = anchors_in(folder)
    liar = Anchor(head.number, b"\0" * 32, "2026-11-16T05:09:00.000Z")
    true = [Anchor(*head, time="2026-11-16T05:09:00.000Z")] * MOST
    lines = [true[0], liar, *true[1:], *file.read()]
    file.write(lines)
    async with desk_in(folder):
        pass
    kept = file.read()
    assert len(kept) < MOST
    assert kept.count(liar) == 1


async def test_anchors_that_cannot_be_written_do_not_stop_the_daemon(folder: Path):
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "audit.anchors").mkdir()
    async with desk_in(folder) as desk:
        session = await desk.session()
        task = await desk.ended(session, await desk.prompt(session, "hello"))
        assert task.status == "completed"


# ── kill -9 ──────────────────────────────────────────────────────────────────────────────────


async def test_a_daemon_that_is_killed_under_load_leaves_a_chain_that_holds(folder: Path):
    """Sessions begin and executors are started and ended all the while: each is a record."""
    settings = {"execution.max_executors": 2, "execution.idle_timeout_ms": 20}
    with running_daemon(settings) as daemon:
        async with daemon.client() as client:
            work = [asyncio.create_task(_work(client, folder)) for _ in range(4)]
            for _ in range(KILLS):
                await _more_records(client, 12)
                await asyncio.to_thread(daemon.kill)
                await asyncio.to_thread(daemon.start)
                found = await soon(client.audit.verify())
                assert found.fault is None
            for each in work:
                each.cancel()
            await asyncio.wait(work)
            entries = await all_entries(client)
            _check_executors(entries)
            assert sum(entry.action == "daemon.started" for entry in entries) == KILLS + 1
        await asyncio.to_thread(daemon.stop)
        await asyncio.to_thread(_ask_offline, daemon, len(entries))


async def _work(client: Client, folder: Path) -> None:
    while True:
        with contextlib.suppress(AgorError):
            session = await client.create_session("scripted", folder)
            accepted = await client.prompt(session.session_id, "hello")
            await client.wait_task(accepted.task_id, timeout=30)


async def _more_records(client: Client, count: int) -> None:
    first = None
    async with asyncio.timeout(60):
        while True:
            async for entry in client.audit.entries():
                first = entry.number if first is None else first
                if entry.number >= first + count:
                    return
                break
            await asyncio.sleep(0.01)


def _check_executors(entries: list[AuditEntry]) -> None:
    """Nobody ends who has not started, and nobody twice."""
    running: set[str | None] = set()
    for entry in entries:
        if entry.action == "executor.started":
            assert entry.subject not in running
            running.add(entry.subject)
        elif entry.action == "executor.ended":
            running.remove(entry.subject)


def _ask_offline(daemon: DaemonProcess, at_least: int) -> None:
    command = [str(Path(sys.executable).with_name("agor")), "audit", "verify", "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "AGOR_HOME": str(daemon.home.folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["fault"] is None
    assert found["checked"] >= at_least
