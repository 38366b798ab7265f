"""`agor doctor --canary`: keeps a made-up key, has an agent use it, and looks for it in clear.

It goes the way of every key: stored through the API, sealed, given to a task, deleted. Meanwhile
and afterwards it must be nowhere. All that this makes is taken away again, but for the records in
the audit log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx

from agor.client import Client
from agor.client.address import checking_connections, of_home
from agor.client.problems import revive
from agor.config import load
from agor.daemon.pool.doctor import Finding
from agor.errors import AgorError, Disconnected, TimedOut
from agor.home import Home
from agor.leaks import Seeker
from agor.protocol.api import FeedEvent

#: Seconds for the task to get its key, and to end.
_PATIENCE = 60.0
_TIMEOUT = httpx.Timeout(30.0)
#: What is asked for besides, since answers of any kind could repeat what they should not.
_ANSWERS = (
    "/credentials", "/credentials/rotation", "/sessions", "/permissions", "/permission-rules",
    "/executors", "/audit", "/health", "/metrics", "/openapi.json", "/docs",
)  # fmt: skip


class Canary:
    """One made-up key on its way."""

    def __init__(self, home: Home, also: list[Path]) -> None:
        self._home = home
        self._also = also
        self._name = f"AGOR_CANARY_{secrets.token_hex(4).upper()}"
        self._value = secrets.token_urlsafe(36)
        self._seeker = Seeker(self._value)
        self._workspace = Path(tempfile.gettempdir(), f"agor-canary-{secrets.token_hex(8)}")

    async def fly(self) -> AsyncIterator[Finding]:
        """Go the whole way; each finding comes as soon as it is there."""
        address = of_home(self._home)
        checking = checking_connections(address, lambda: of_home(self._home))

        async def check(request: httpx.Request) -> None:
            request.extensions |= checking

        async with (
            Client.local(self._home) as client,
            httpx.AsyncClient(
                base_url=address.url,
                headers=address.headers,
                event_hooks={"request": [check]},
                trust_env=False,
                timeout=_TIMEOUT,
            ) as http,
        ):
            try:
                # Whoever the executor runs as has to get there.
                self._workspace.mkdir(mode=0o755)
                await self._store(http)
                async for finding in self._use(client, http):
                    yield finding
                await client.credentials.delete(self._name)
                await self._look_around()
                for finding in self._tell():
                    yield finding
            except httpx.TransportError:
                raise Disconnected(f"the connection to {address.url} was cut") from None
            except TimeoutError:
                raise TimedOut(f"the canary's task did nothing for {_PATIENCE:g} s") from None
            finally:
                with contextlib.suppress(AgorError):
                    await client.credentials.delete(self._name)
                shutil.rmtree(self._workspace, ignore_errors=True)

    # ── the way of the key ───────────────────────────────────────────────────────────────────

    async def _store(self, http: httpx.AsyncClient) -> None:
        """Store it, and offer it in ways that are refused: what is refused must not be repeated."""
        answer = await self._ask(http, "PUT", f"/credentials/{self._name}", {"value": self._value})
        if not answer.is_success:
            raise revive(answer.status_code, answer.content)
        wrong: list[Any] = [
            {"value": [self._value]},
            {"value": {self._value: self._value}},
            {"value": "x", self._value: 1},
            {"value": f"{self._value}\n"},
            {"value": self._value * 400},
            {"value": self._value, "base_url": self._value},
            {"value": self._value, "agents": [self._value]},
            [self._value],
            self._value,
        ]
        for body in wrong:
            await self._ask(http, "PUT", f"/credentials/{self._name}_WRONG", body)

    async def _use(self, client: Client, http: httpx.AsyncClient) -> AsyncIterator[Finding]:
        """Have a task fetch it and hold it while a program runs beside it."""
        session = await client.create_session("scripted", self._workspace, title="canary")
        script = [{"key": self._name}, {"run": ["sleep", "300"]}]
        task_id = None
        try:
            task_id = (await client.prompt(session.session_id, json.dumps(script))).task_id
            fetched = await self._hold(client, session.session_id, task_id)
            await self._look_around()
            await client.stop_task(task_id, reason="canary")
            await client.wait_task(task_id, timeout=_PATIENCE)
            await self._hear(http, session.session_id, task_id)
        finally:
            with contextlib.suppress(AgorError):
                await _remove(client, session.session_id, task_id)
        if fetched:
            yield Finding("canary", "ok", f"{self._name} was stored, given to a task, and deleted")
        else:
            task = "its task ended before it had the key"
            yield Finding("canary", "problem", task, "Look into the log: agor daemon logs")

    async def _hold(self, client: Client, session_id: str, task_id: str) -> bool:
        """Wait until the task has the key and runs its program; False if it ended before."""
        fetched = False
        async with asyncio.timeout(_PATIENCE), client.follow(session_id) as feed:
            async for event in feed:
                fetched = fetched or (event.type == "log" and self._name in str(event.data))
                if _runs(event) or _ended(event, task_id):
                    break
        return fetched

    # ── where it must not be ─────────────────────────────────────────────────────────────────

    async def _ask(
        self, http: httpx.AsyncClient, method: str, path: str, body: Any = None
    ) -> httpx.Response:
        answer = await http.request(method, path, json=body)
        head = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        self._seeker.look_at(f"the answer to {method} {path}", head.encode() + answer.content)
        return answer

    async def _hear(self, http: httpx.AsyncClient, session_id: str, task_id: str) -> None:
        """Look at all that the daemon tells of the session, and of itself."""
        own = [f"/sessions/{session_id}", f"/sessions/{session_id}/tasks", f"/tasks/{task_id}"]
        for path in (*own, *_ANSWERS):
            await self._ask(http, "GET", path)
        told = await self._ask(http, "GET", f"/sessions/{session_id}/messages")
        last = told.json()["sequence"]
        async with asyncio.timeout(_PATIENCE):
            async with http.stream("GET", f"/sessions/{session_id}/events") as feed:
                async for line in feed.aiter_lines():
                    self._seeker.look_at(f"the events of session {session_id}", line.encode())
                    if line.replace(" ", "") == f"id:{last}":
                        break

    async def _look_around(self) -> None:
        """Look at files and processes, without holding up the connections."""
        await asyncio.to_thread(self._look_at_the_machine)

    def _look_at_the_machine(self) -> None:
        self._seeker.look_at_processes()
        for folder in (self._home.folder, self._workspace, *self._also):
            if folder.is_dir():
                self._seeker.look_below(folder)
            else:
                self._seeker.look_at_file(folder)
        for path in _database_files(self._home):
            self._seeker.look_at_file(path)

    def _tell(self) -> Iterator[Finding]:
        """Say what was looked at, and what was found."""
        seen = self._seeker.seen
        size = seen["bytes"] / 1e6
        yield self._counted(f"{seen['files']} files with {size:.1f} MB", "files", "files")
        yield self._counted(f"{seen['command lines']} of them", "command lines", "command lines")
        yield self._counted(f"{seen['environments']} of them", "environments", "environments")
        yield Finding("answers", "ok", f"{seen['texts']} answers and events looked at")
        if not self._also and not _database_files(self._home):
            yield Finding(
                "database", "warning", "its files are elsewhere and were not looked at",
                "As a user who may read them: agor doctor --canary --also DATA_FOLDER",
            )  # fmt: skip
        for leak in self._seeker.leaks:
            yield Finding("found in clear", "problem", f"{leak.where} ({leak.spelling})")

    def _counted(self, what: str, name: str, kind: str) -> Finding:
        unreadable = self._seeker.seen[f"unreadable {kind}"]
        rest = f"; {unreadable} could not be read" if unreadable else ""
        return Finding(name, "ok", f"{what} looked at{rest}")


def _runs(event: FeedEvent) -> bool:
    return event.type == "block_update" and event.data.get("status") == "running"


def _ended(event: FeedEvent, task_id: str) -> bool:
    return event.type == "task" and event.task_id == task_id and bool(event.data.get("ended_at"))


def _database_files(home: Home) -> list[Path]:
    """List the files of an SQLite database, and what is called like them: copies, its log."""
    url = load(home.folder).database.url
    if not url.startswith("sqlite:///"):
        return []
    path = Path(url.removeprefix("sqlite:///"))
    return sorted(path.parent.glob(f"{path.name}*"))


async def _remove(client: Client, session_id: str, task_id: str | None) -> None:
    if task_id is not None and (await client.task(task_id)).ended_at is None:
        await client.stop_task(task_id, reason="canary")
        await client.wait_task(task_id, timeout=_PATIENCE)
    await client.delete_session(session_id)
