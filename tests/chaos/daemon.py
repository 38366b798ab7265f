"""Chaos for the daemon: kill -9 of it, its writer, launchers, keepers and executors, while twenty
sessions stream and clients follow them by cursor.

Afterwards every feed is held against what its scripts must have produced.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import sqlite3
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import uvloop

from agor.client import Client
from tests.chaos.conversations import Faults, Follower, Talker, examine
from tests.integration.daemon.daemon_process import DaemonProcess, kill, running_daemon

SESSIONS = 20
#: Who is killed, and how often in comparison.
VICTIMS = {"executor": 5, "keeper": 2, "launcher": 2, "daemon": 4, "writer": 3}
#: Seconds between two kills.
PAUSE = (0.01, 0.3)
#: Seconds in which all that is under way must have ended.
_PATIENCE = 120.0
_SETTINGS = {
    "execution.max_executors": SESSIONS + 2,
    "execution.idle_timeout_ms": 5000,
    "execution.stop_timeout_ms": 2000,
    "execution.ping_interval_ms": 1000,
    "log.level": "info",
}


class Run:
    """One run: the daemon, who talks to it, who follows, and the kills."""

    def __init__(self, daemon: DaemonProcess, workspace: Path) -> None:
        self._daemon = daemon
        self._workspace = workspace
        self.kills: Counter[str] = Counter()
        self.talkers: list[Talker] = []
        self.followers: list[Follower] = []

    async def go(self, client: Client, duration: float, kills: int) -> Faults:
        """Talk, follow and kill; then let all end, and look."""
        sessions = [
            (
                await client.create_session(agentic_tool="scripted", workspace=str(self._workspace))
            ).session_id
            for _ in range(SESSIONS)
        ]
        self.talkers = [Talker(client, session) for session in sessions]
        self.followers = [Follower(client, session) for session in sessions]
        work = [asyncio.create_task(talker.run()) for talker in self.talkers]
        work += [asyncio.create_task(follower.run()) for follower in self.followers]
        try:
            end = time.monotonic() + duration
            while time.monotonic() < end or self.kills.total() < kills:
                await asyncio.sleep(random.uniform(*PAUSE))
                await self._kill_somebody()
                for task in work:
                    if task.done():
                        task.result()
            return await self._conclude(client, sessions, work)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _conclude(
        self, client: Client, sessions: list[str], work: list[asyncio.Task[None]]
    ) -> Faults:
        for talker in self.talkers:
            talker.leave_a_question = True
        async with asyncio.timeout(_PATIENCE):
            await asyncio.gather(*work[: len(self.talkers)])
        # Every session now waits for an answer. Twice more, nobody is there for a while.
        for _ in range(2):
            await asyncio.to_thread(self._kill_daemon)
        faults = Faults()
        for talker in self.talkers:
            async with asyncio.timeout(_PATIENCE):
                await talker.answer_the_question(faults)
        for session, follower in zip(sessions, self.followers, strict=True):
            async with asyncio.timeout(_PATIENCE):
                await examine(client, session, follower, faults)
        return faults

    # ── killing ──────────────────────────────────────────────────────────────────────────────

    async def _kill_somebody(self) -> None:
        (kind,) = random.choices(list(VICTIMS), weights=list(VICTIMS.values()))
        if kind == "daemon":
            await asyncio.to_thread(self._kill_daemon)
            return
        if kind == "launcher":
            victims = await asyncio.to_thread(self._daemon.launchers)
        elif kind == "writer":
            victims = await asyncio.to_thread(self._daemon.writers)
        else:
            families = await asyncio.to_thread(self._daemon.executors)
            victims = [each.keeper if kind == "keeper" else each.executor for each in families]
        if victims and kill(random.choice(victims)):
            self.kills[kind] += 1

    def _kill_daemon(self) -> None:
        self._daemon.kill()
        self.kills["daemon"] += 1
        self._daemon.start()

    # ── what is left ─────────────────────────────────────────────────────────────────────────

    def leaked(self) -> list[str]:
        """End the daemon with its executors, and list what is still there."""
        self._daemon.configure({"daemon.drain_on_stop": True})
        self._daemon.restart()
        self._daemon.stop()
        left = []
        with contextlib.suppress(AssertionError):
            self._daemon.wait_only()
        left += [f"process {process.pid}" for process in self._daemon.everything()]
        left += [str(path) for path in (self._daemon.home.runtime / "executors").iterdir()]
        with contextlib.closing(sqlite3.connect(self._daemon.home.folder / "agor.db")) as database:
            for table, condition in (
                ("executors", "1"),
                ("tokens", "revoked_at IS NULL"),
                ("permission_requests", "status = 'pending'"),
            ):
                query = f"SELECT COUNT(*) FROM {table} WHERE {condition}"
                (count,) = database.execute(query).fetchone()
                left += [f"{count} rows of {table}"] if count else []
        return left


async def _run(daemon: DaemonProcess, duration: float, kills: int) -> tuple[Run, Faults]:
    run = Run(daemon, Path("/"))
    async with daemon.client() as client:
        try:
            faults = await run.go(client, duration, kills)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run is not well
            traceback.print_exc()
            faults = Faults()
            faults.lost.append(f"the run did not come to its end: {error!r}")
    return run, faults


def run(duration: float, kills: int) -> bool:
    """Kill for so long and at least so often; tell whether all is well."""
    with running_daemon(_SETTINGS, cold=True) as daemon:
        chaos, faults = uvloop.run(_run(daemon, duration, kills))
        leaked = chaos.leaked()
        for what in (*faults.all, *(f"left behind: {it}" for it in leaked)):
            print(f"chaos: {what}")
        if faults.all or leaked:
            kept = Path(tempfile.mkdtemp(prefix="agor-chaos-kept-"))
            shutil.copy(daemon.log_file, kept)
            for path in daemon.home.folder.glob("agor.db*"):
                shutil.copy(path, kept)
            print(f"chaos: log and database are in {kept}")
    print(f"chaos: {faults.tasks.total()} tasks, {dict(faults.tasks)}, {faults.events} events")
    print(f"chaos: killed {dict(chaos.kills)}")
    print(
        f"chaos: kills={chaos.kills.total()} lost={len(faults.lost)} "
        f"duplicated={len(faults.duplicated)} after_end={len(faults.after_end)} "
        f"leaked={len(leaked)}"
    )
    return not (faults.all or leaked)
