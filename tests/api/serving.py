"""A daemon with its interface, for tests: real services, a real database, a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from agor.config.keys import build
from agor.daemon.api.app import App
from agor.daemon.api.server import ApiServer
from agor.daemon.api.services import Services
from agor.daemon.api.settings import ApiSettings
from agor.daemon.main import Daemon
from agor.daemon.services.principal import Principal
from agor.home import Home
from tests.contract.waiting import PATIENCE
from tests.database import put_database


@dataclass
class Served:
    """An interface that is being served."""

    daemon: Daemon
    app: App
    server: ApiServer
    who: Principal
    port: int
    token: str
    folder: Path
    #: A client that has the token.
    ask: httpx.AsyncClient

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def count(self, name: str, **labels: str) -> float:
        """A figure, as the metrics have it now."""
        return self.daemon.metrics.registry.get_sample_value(name, labels) or 0.0

    async def new_session(self, **members: object) -> str:
        new = {"agentic_tool": "scripted", "workspace": str(self.folder), **members}
        answer = await self.ask.post("/sessions", json=new)
        assert answer.status_code == 201, answer.text
        session_id: str = answer.json()["session_id"]
        return session_id

    async def prompt(self, session_id: str, prompt: str) -> str:
        answer = await self.ask.post(f"/sessions/{session_id}/prompt", json={"prompt": prompt})
        assert answer.status_code == 202, answer.text
        task_id: str = answer.json()["task_id"]
        return task_id

    async def finished(self, task_id: str) -> dict[str, Any]:
        """Wait until a task has ended."""
        async with asyncio.timeout(PATIENCE):
            while True:
                task: dict[str, Any] = (await self.ask.get(f"/tasks/{task_id}")).json()
                if task["ended_at"] is not None:
                    return task
                await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def serving(
    folder: Path,
    *,
    settings: ApiSettings | None = None,
    change: Callable[[Services], dict[str, Any]] = lambda services: {},
    **config: object,
) -> AsyncIterator[Served]:
    """Serve the interface of a daemon. `change` may put others in the places of its services."""
    home = Home(folder / "home")
    home.prepare()
    put_database(home.folder)
    values = {
        "execution.use_executor": False,
        "database.url": f"sqlite:///{home.folder / 'agor.db'}",
        **config,
    }
    daemon = Daemon(build(values), home)
    async with daemon.working() as who:
        services = daemon.services()
        services = dataclasses.replace(services, **change(services))
        token = home.token()
        app = daemon.app(settings or ApiSettings(), services)
        server = ApiServer(app)
        port = await server.start("127.0.0.1", 0)
        headers = {"authorization": f"Bearer {token}"}
        try:
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}",
                headers=headers,
                trust_env=False,
                timeout=20,
                verify=False,
            ) as client:
                yield Served(daemon, app, server, who, port, token, folder, client)
        finally:
            await server.stop(2.0)
