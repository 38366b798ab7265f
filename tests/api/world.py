"""People of every role and things of every kind, for the tests of who may do what.

Everything is made through the interface itself, by whoever shall own it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from agor.daemon.services.access import Tie
from agor.daemon.services.people.people import principal
from agor.protocol.people import NewToken, Role
from tests.api.serving import Served, serving
from tests.contract.waiting import PATIENCE

ROLES: tuple[Role, ...] = ("owner", "admin", "member", "viewer")
#: Asks before it runs: so the task goes on until somebody decides.
ASKING = '[{"tool": {"name": "Write", "input": {"path": "x"}, "output": "", "ask": true}}]'


@contextlib.asynccontextmanager
async def peopled(folder: Path, **config: Any) -> AsyncIterator[World]:
    """Serve the interface of a daemon, to many."""
    async with (
        serving(folder, **config) as served,
        httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=20, verify=False) as client,
    ):
        yield World(served, client)


@dataclass
class Person:
    """Somebody with a token."""

    user_id: str
    name: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}


@dataclass
class World:
    """A daemon with people."""

    served: Served
    #: A client that has no token of its own.
    client: httpx.AsyncClient
    _number: itertools.count[int] = field(default_factory=itertools.count)

    async def ask(self, who: Person | None, method: str, path: str, body: Any = None) -> Any:
        """Ask as somebody, without a word if it is refused; as the home's owner if as nobody."""
        answer = await self.send(method, path, body, None if who is None else who.headers)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer.json() if answer.content else None

    async def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        given = self.served.headers if headers is None else headers
        return await self.client.request(method, path, json=body, headers=given)

    # ── people ───────────────────────────────────────────────────────────────────────────────

    async def person(self, role: Role = "member") -> Person:
        name = f"{role}-{next(self._number)}"
        user = await self.ask(None, "POST", "/users", {"name": name, "role": role})
        # Tokens are one's own affair: not even the home's owner can make one for others.
        daemon = self.served.daemon
        who = principal(daemon.people.get(user["user_id"]))
        made = await daemon.api_tokens.make(who, NewToken(name="theirs"))
        return Person(user["user_id"], name, made.token)

    def unused_name(self) -> str:
        return f"new-{next(self._number)}"

    async def set_role(self, who: Person, role: Role) -> None:
        await self.ask(None, "PATCH", f"/users/{who.user_id}", {"role": role})

    # ── things ───────────────────────────────────────────────────────────────────────────────

    async def session(self, owner: Person) -> str:
        new = {"agentic_tool": "scripted", "workspace": str(self.served.folder)}
        made = await self.ask(owner, "POST", "/sessions", new)
        session_id: str = made["session_id"]
        return session_id

    async def task(self, owner: Person, session_id: str) -> str:
        """One that goes on until it is stopped or allowed."""
        path = f"/sessions/{session_id}/prompt"
        task_id: str = (await self.ask(owner, "POST", path, {"prompt": ASKING}))["task_id"]
        await self.until(owner, task_id, "awaiting_permission")
        return task_id

    async def waiting_task(self, owner: Person, session_id: str) -> str:
        """One that is behind another."""
        await self.task(owner, session_id)
        return await self.later_task(owner, session_id)

    async def later_task(self, owner: Person, session_id: str) -> str:
        """One that says a word when its turn comes."""
        path = f"/sessions/{session_id}/prompt"
        task_id: str = (await self.ask(owner, "POST", path, {"prompt": "later"}))["task_id"]
        return task_id

    async def terminal(self, owner: Person, session_id: str) -> str:
        path = f"/sessions/{session_id}/terminals"
        made = await self.ask(owner, "POST", path, {"shell": "/bin/sh"})
        terminal_id: str = made["terminal_id"]
        return terminal_id

    async def permission(self, owner: Person, session_id: str) -> str:
        await self.task(owner, session_id)
        pending = await self.ask(owner, "GET", "/permissions?status=pending")
        (found,) = (each for each in pending["items"] if each["session_id"] == session_id)
        permission_id: str = found["permission_id"]
        return permission_id

    async def share(self, owner: Person, session_id: str, guest: Person, tie: Tie) -> None:
        if tie in ("prompt", "view"):
            path = f"/sessions/{session_id}/shares/{guest.user_id}"
            await self.ask(owner, "PUT", path, {"access": tie})

    async def token(self, owner: Person) -> str:
        made = await self.ask(owner, "POST", "/tokens", {"name": "one more"})
        token_id: str = made["token_id"]
        return token_id

    async def rule(self, owner: Person) -> str:
        new = {"effect": "allow", "tool": "Read", "scope": "user", "input": {}}
        rule_id: str = (await self.ask(owner, "POST", "/permission-rules", new))["rule_id"]
        return rule_id

    async def credential(self, owner: Person) -> str:
        name = f"KEY_{next(self._number)}"
        await self.ask(owner, "PUT", f"/credentials/{name}", {"value": "not-a-real-key"})
        return name

    async def repo(self, owner: Person) -> str:
        folder = self.served.folder / f"repo-{next(self._number)}"
        git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(folder))
        commands = (
            ("git", "init", "-q", "-b", "main", str(folder)),
            (*git, "commit", "-q", "--allow-empty", "-m", "begin"),
        )
        for command in commands:
            await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
        repo_id: str = (await self.ask(owner, "POST", "/repos", {"path": str(folder)}))["repo_id"]
        return repo_id

    async def worktree(self, owner: Person) -> str:
        repo_id = await self.repo(owner)
        path = f"/repos/{repo_id}/worktrees"
        worktree_id: str = (await self.ask(owner, "POST", path, {}))["worktree_id"]
        return worktree_id

    async def until(self, who: Person, task_id: str, status: str) -> Any:
        """Wait until a task has come so far; gives the task."""
        async with asyncio.timeout(PATIENCE):
            while (task := await self.ask(who, "GET", f"/tasks/{task_id}"))["status"] != status:
                await asyncio.sleep(0.005)
        return task
