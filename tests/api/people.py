"""People at a daemon, for tests: each with a client of their own, by token or by cookie."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
from argon2 import PasswordHasher

from agor.daemon.main import Daemon
from agor.daemon.services.people.passwords import _made_up
from agor.daemon.services.people.people import principal
from agor.daemon.store.base import Write
from agor.daemon.store.rows import AuditRecord
from agor.protocol.people import NewToken, Role
from tests.api.serving import Served

PASSWORD = "correct horse battery"


@dataclass
class Person:
    """Somebody, and how they ask."""

    user_id: str
    name: str
    token_id: str
    token: str
    ask: httpx.AsyncClient


def cheapen(daemon: Daemon) -> None:
    """Have passwords cost next to nothing: what they cost is tested elsewhere."""
    hasher = PasswordHasher(1, 8, 1)
    daemon.passwords._hasher = hasher
    daemon.passwords._nobodys = _made_up(hasher)


async def add(served: Served, name: str, role: Role = "member", **members: Any) -> dict[str, Any]:
    """Add somebody, as the owner."""
    answer = await served.ask.post("/users", json={"name": name, "role": role, **members})
    assert answer.status_code == 201, answer.text
    added: dict[str, Any] = answer.json()
    return added


@contextlib.asynccontextmanager
async def person(
    served: Served, name: str, role: Role = "member", **members: Any
) -> AsyncIterator[Person]:
    """Somebody new, with a token."""
    user_id = (await add(served, name, role, **members))["user_id"]
    row = served.daemon.people.get(user_id)
    made = await served.daemon.api_tokens.make(principal(row), NewToken(name="for tests"))
    async with asking(served, made.token) as client:
        yield Person(user_id, name, made.token_id, made.token, client)


@contextlib.asynccontextmanager
async def asking(served: Served, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a token or with none; it keeps the cookies that it is given."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        base_url=served.url, headers=headers, trust_env=False, timeout=20, verify=False
    ) as client:
        yield client


@contextlib.asynccontextmanager
async def browsing(
    served: Served, name: str, password: str = PASSWORD
) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that somebody has signed in with; it says which page asks, as browsers do."""
    async with asking(served) as client:
        client.headers["origin"] = served.url
        answer = await sign_in(client, name, password)
        assert answer.status_code == 200, answer.text
        yield client


async def sign_in(
    client: httpx.AsyncClient, name: str, password: str, **headers: str
) -> httpx.Response:
    return await client.post(
        "/auth/login", json={"name": name, "password": password}, headers=headers
    )


class Witness:
    """What was committed, in order."""

    def __init__(self, daemon: Daemon) -> None:
        self.writes: list[Write] = []
        commit = daemon.store.commit

        async def watch(write: Write) -> None:
            await commit(write)
            self.writes.append(write)

        daemon.store.commit = watch  # type: ignore[method-assign]

    @property
    def records(self) -> list[AuditRecord]:
        return [record for write in self.writes for record in write.records]

    @property
    def actions(self) -> list[str]:
        return [record.action for record in self.records]

    def last(self, action: str) -> tuple[AuditRecord, dict[str, Any]]:
        """The last record of an action, and its details."""
        record = [each for each in self.records if each.action == action][-1]
        return record, msgspec.json.decode(record.detail)

    def together(self, action: str) -> Write:
        """What was committed together with the last record of an action."""
        return [
            write
            for write in self.writes
            if action in [record.action for record in write.records]
        ][-1]  # fmt: skip
