"""A peer of the feed group: asyncio streams, json, aiosqlite and Starlette.

The usual way to write such a daemon in Python. What a read brought is stored in one transaction and
then told to the clients of the session, event by event; a session that is made is one row, with a
commit of its own. The write-ahead log is synced when it is emptied (NORMAL), as is often advised;
with `--full`, with every commit, as SQLite does unless it is told otherwise.

Usage: python feed_starlette.py [--full] FOLDER PORT
"""
# The packages live in the peers' own environment, where a type checker does not look.
# mypy: disable-error-code="import-not-found"

import asyncio
import contextlib
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiosqlite
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

SYNCHRONOUS = "FULL" if "--full" in sys.argv else "NORMAL"
FOLDER, PORT = Path(sys.argv[-2]), int(sys.argv[-1])

TABLES = """
CREATE TABLE events (
  session TEXT, sequence INTEGER, body TEXT, PRIMARY KEY (session, sequence)
);
CREATE TABLE sessions (
  session_id TEXT PRIMARY KEY, status TEXT, agentic_tool TEXT, workspace TEXT, created_at INTEGER
);
"""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Session:
    """A conversation, and who follows it."""

    def __init__(self, number: int) -> None:
        self.session_id = str(uuid.uuid4())
        self.number = number
        self.sequence = 0
        self.clients: set[WebSocket] = set()


class Peer:
    """The whole daemon."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.executors: set[asyncio.Task[None]] = set()
        self.database: aiosqlite.Connection

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with aiosqlite.connect(FOLDER / "events.db") as self.database:
            await self.database.execute("PRAGMA journal_mode = WAL")
            await self.database.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
            await self.database.executescript(TABLES)
            yield

    async def create(self, request: Request) -> JSONResponse:
        asked = await request.json()
        session = Session(len(self.sessions))
        row = (session.session_id, "idle", asked["agentic_tool"], asked["workspace"], now_ms())
        await self.database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", row)
        await self.database.commit()
        self.sessions[session.session_id] = session
        columns = ("session_id", "status", "agentic_tool", "workspace", "created_at")
        return JSONResponse(dict(zip(columns, row, strict=True)), status_code=201)

    async def prompt(self, request: Request) -> JSONResponse:
        session = self.sessions[request.path_params["session_id"]]
        self.executors.add(asyncio.create_task(self.run(session)))
        return JSONResponse({}, status_code=202)

    async def follow(self, socket: WebSocket) -> None:
        session = self.sessions[socket.path_params["session_id"]]
        await socket.accept()
        session.clients.add(socket)
        with contextlib.suppress(WebSocketDisconnect):
            await socket.receive_text()
        session.clients.discard(socket)

    async def run(self, session: Session) -> None:
        """Take an executor's events until it has no more."""
        path = FOLDER / f"{session.number}.sock"
        reader, writer = await asyncio.open_unix_connection(str(path))
        task_id, token = str(uuid.uuid4()), str(uuid.uuid4())
        params = {"session_token": token, "session_id": session.session_id, "task_id": task_id}
        call = {"jsonrpc": "2.0", "id": 1, "method": "execute_prompt", "params": params}
        writer.write(encode(call))
        partial = b""
        while data := await reader.read(65536):
            *lines, partial = (partial + data).split(b"\n")
            events = [m["params"] for m in map(json.loads, lines) if "method" in m]
            if events:
                assert all(event["session_token"] == token for event in events)
                await self.deliver(session, events)
                acknowledged = {"task_id": task_id, "sequence": events[-1]["sequence"]}
                notice = {"jsonrpc": "2.0", "method": "ack_messages", "params": acknowledged}
                writer.write(encode(notice))
        writer.close()

    async def deliver(self, session: Session, events: list[dict[str, Any]]) -> None:
        rows = []
        for event in events:
            session.sequence += 1
            told = {
                "sequence": session.sequence,
                "type": event["event_type"],
                "task_id": event["task_id"],
                "data": event["event_data"],
                "created_at": now_ms(),
            }
            rows.append((session.session_id, session.sequence, compact(told)))
        await self.database.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
        await self.database.commit()
        for _, _, body in rows:
            for client in session.clients:
                await client.send_text(body)


def compact(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def encode(message: dict[str, Any]) -> bytes:
    return compact(message).encode() + b"\n"


def main() -> None:
    peer = Peer()
    routes = [
        Route("/sessions", peer.create, methods=["POST"]),
        Route("/sessions/{session_id}/prompt", peer.prompt, methods=["POST"]),
        WebSocketRoute("/sessions/{session_id}/events", peer.follow),
    ]
    app = Starlette(routes=routes, lifespan=peer.lifespan)
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning", backlog=2048)


if __name__ == "__main__":
    main()
