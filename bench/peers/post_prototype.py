"""What the machine allows a Python daemon: Starlette in front of our own store, and nothing else.

A session that is made is one row, committed in a group with the others and synced. No token, no
checks, no event in a feed, no record in an audit log: the gap between this and `ours` is their
price, less that of Starlette, which ours does without.

Usage: python post_prototype.py FOLDER PORT
"""

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agor.daemon.services.stamps import new_id, now
from agor.daemon.store import sessions
from agor.daemon.store.base import Write
from agor.daemon.store.rows import SessionRow
from agor.daemon.store.sqlite.store import SqliteStore

FOLDER, PORT = Path(sys.argv[1]), int(sys.argv[2])
SHOWN = ("session_id", "status", "agentic_tool", "workspace", "created_at")


class Prototype:
    """The whole daemon."""

    def __init__(self) -> None:
        self.store = SqliteStore(FOLDER / "events.db")
        self.made = 0

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        await self.store.open()
        yield
        await self.store.close()

    async def create(self, request: Request) -> JSONResponse:
        asked: dict[str, Any] = await request.json()
        self.made += 1
        at = now()
        row = SessionRow(
            number=self.made,
            session_id=new_id(),
            user_id="nobody",
            status="idle",
            agentic_tool=asked["agentic_tool"],
            workspace=asked["workspace"],
            worktree_id=None,
            title=None,
            permission_mode="default",
            model=None,
            environment="local",
            agent_session_id=None,
            created_at=at,
            updated_at=at,
            mcp_servers=None,
        )
        await self.store.commit(Write([sessions.insert(row)]))
        return JSONResponse({name: getattr(row, name) for name in SHOWN}, status_code=201)


def main() -> None:
    prototype = Prototype()
    routes = [Route("/sessions", prototype.create, methods=["POST"])]
    app = Starlette(routes=routes, lifespan=prototype.lifespan)
    uvicorn.run(app, port=PORT, http="httptools", loop="uvloop", access_log=False)


if __name__ == "__main__":
    main()
