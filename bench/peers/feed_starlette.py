"""A peer of the feed group: asyncio streams, json, aiosqlite and Starlette.

The usual way to write such a daemon in Python. Lines are read one by one and put into a queue; what
is in it is inserted row by row, committed together, and told to the clients of its session. A
session that is made is a row with a commit of its own. The write-ahead log is synced when it is
emptied (NORMAL), as is often advised, not with every commit.

Usage: python feed_starlette.py FOLDER PORT
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
from typing import Any, NamedTuple

import aiosqlite
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

FOLDER, PORT = Path(sys.argv[1]), int(sys.argv[2])
MOST_WAITING = 10_000

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


def compact(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


class Session:
    """A conversation, who follows it, and who works for it."""

    def __init__(self, number: int) -> None:
        self.session_id = str(uuid.uuid4())
        self.number = number
        self.sequence = 0
        self.clients: set[WebSocket] = set()
        self.token = str(uuid.uuid4())
        self.task_id = str(uuid.uuid4())
        self.executor: asyncio.StreamWriter

    def send(self, **message: Any) -> None:
        self.executor.write(compact({"jsonrpc": "2.0", **message}).encode() + b"\n")


class Event(NamedTuple):
    """What an executor reported."""

    session: Session
    sequence: int
    body: str
    acknowledge: int


class Peer:
    """The whole daemon."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.queue: asyncio.Queue[Event] = asyncio.Queue(MOST_WAITING)
        self.lock = asyncio.Lock()
        self.work: set[asyncio.Task[None]] = set()
        self.database: aiosqlite.Connection

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with aiosqlite.connect(FOLDER / "events.db") as self.database:
            await self.database.execute("PRAGMA journal_mode = WAL")
            await self.database.execute("PRAGMA synchronous = NORMAL")
            await self.database.executescript(TABLES)
            writing = asyncio.create_task(self.write())
            yield
            writing.cancel()

    async def create(self, request: Request) -> JSONResponse:
        asked = await request.json()
        session = Session(len(self.sessions))
        row = (session.session_id, "idle", asked["agentic_tool"], asked["workspace"], now_ms())
        # One transaction at a time: the connection is shared, and so is what is not committed.
        async with self.lock:
            await self.database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", row)
            await self.database.commit()
        self.sessions[session.session_id] = session
        columns = ("session_id", "status", "agentic_tool", "workspace", "created_at")
        return JSONResponse(dict(zip(columns, row, strict=True)), status_code=201)

    async def prompt(self, request: Request) -> JSONResponse:
        session = self.sessions[request.path_params["session_id"]]
        self.work.add(asyncio.create_task(self.read(session)))
        return JSONResponse({}, status_code=202)

    async def follow(self, socket: WebSocket) -> None:
        session = self.sessions[socket.path_params["session_id"]]
        await socket.accept()
        session.clients.add(socket)
        with contextlib.suppress(WebSocketDisconnect):
            await socket.receive_text()
        session.clients.discard(socket)

    async def read(self, session: Session) -> None:
        """Take an executor's events until it has no more."""
        path = FOLDER / f"{session.number}.sock"
        reader, session.executor = await asyncio.open_unix_connection(str(path))
        params = {"session_id": session.session_id, "task_id": session.task_id}
        params["session_token"] = session.token
        session.send(id=1, method="execute_prompt", params=params)
        while line := await reader.readline():
            message = json.loads(line)
            if message.get("method") == "report_message":
                await self.queue.put(self.take(session, message["params"]))

    def take(self, session: Session, params: dict[str, Any]) -> Event:
        if params["session_token"] != session.token:
            raise ValueError("a token of another executor")
        session.sequence += 1
        told = {
            "sequence": session.sequence,
            "type": params["event_type"],
            "task_id": params["task_id"],
            "data": params["event_data"],
            "created_at": now_ms(),
        }
        return Event(session, session.sequence, compact(told), params["sequence"])

    async def write(self) -> None:
        """Store what has come, and tell of it."""
        while True:
            events = [await self.queue.get()]
            while not self.queue.empty():
                events.append(self.queue.get_nowait())
            async with self.lock:
                for event in events:
                    row = (event.session.session_id, event.sequence, event.body)
                    await self.database.execute("INSERT INTO events VALUES (?, ?, ?)", row)
                await self.database.commit()
            await self.tell(events)

    async def tell(self, events: list[Event]) -> None:
        last: dict[Session, int] = {}
        for event in events:
            for client in event.session.clients:
                await client.send_text(event.body)
            last[event.session] = event.acknowledge
        for session, sequence in last.items():
            params = {"task_id": session.task_id, "sequence": sequence}
            session.send(method="ack_messages", params=params)


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
