"""The client's part of accounts, against a real daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agor.client import Client
from agor.client.address import Find, fixed
from agor.client.signing_in import make_token
from agor.daemon.services.people.throttle import FREE_BY_NAME
from agor.errors import (
    BadInput,
    Conflict,
    DaemonNotRunning,
    Forbidden,
    NotFound,
    TooManyAttempts,
    Unauthenticated,
    Unprocessable,
)
from agor.protocol.people import NewToken
from tests.api.people import PASSWORD, cheapen
from tests.api.serving import Served


def at(url: str) -> Find:
    return lambda: fixed(url, "none")


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    cheapen(served.daemon)
    async with Client(served.url, served.token) as one:
        yield one


async def test_users_are_added_found_changed_and_listed(client: Client) -> None:
    ada = await client.users.add("Ada", role="admin", password=PASSWORD)
    assert (ada.name, ada.role, ada.has_password) == ("ada", "admin", True)
    assert await client.users.named("ADA") == ada
    assert await client.users.get(ada.user_id) == ada
    changed = await client.users.change(ada.user_id, role="member", unix_username="daemon")
    assert (changed.role, changed.unix_username, changed.disabled_at) == ("member", "daemon", None)
    changed = await client.users.change(ada.user_id, unix_username=None, disabled=True)
    assert (changed.role, changed.unix_username) == ("member", None)
    assert changed.disabled_at is not None
    assert [user.name async for user in client.users.list()][1:] == ["ada"]
    with pytest.raises(NotFound):
        await client.users.named("nobody")
    with pytest.raises(NotFound):
        await client.users.get("../tokens")
    with pytest.raises(Conflict):
        await client.users.add("ADA")
    with pytest.raises(Unprocessable):
        await client.users.add("eve", password="short")


async def test_more_users_than_a_page_has_are_all_listed(client: Client) -> None:
    names = [f"user-{n:03}" for n in range(230)]
    for name in names:
        await client.users.add(name)
    assert [user.name async for user in client.users.list()][1:] == names


async def test_tokens_are_made_listed_and_revoked(served: Served, client: Client) -> None:
    made = await client.tokens.make("ci", expires_at=None)
    assert made.expires_at is None
    async with Client(served.url, made.token) as program:
        me = await program.users.me()
        assert (me.user_id, me.via) == (served.who.user_id, "api_token")
        with pytest.raises(Forbidden):
            await program.users.sign_in_code()
        assert [token.name async for token in client.tokens.list()] == ["ci"]
        await client.tokens.revoke(made.token_id)
        with pytest.raises(Unauthenticated):
            await program.users.me()
    assert [token async for token in client.tokens.list()] == []
    assert (await client.users.me()).via == "local_token"
    assert len((await client.users.sign_in_code()).code) == 43


async def test_who_has_a_password_gets_a_token_with_it(served: Served, client: Client) -> None:
    ada = await client.users.add("ada", password=PASSWORD)
    made = await make_token(at(served.url), "ada", PASSWORD, NewToken(name="laptop"))
    assert made.user_id == ada.user_id
    assert served.daemon.sign_ins.of(ada.user_id) == [], "and is signed out again"
    async with Client(served.url, made.token) as hers:
        await hers.users.set_password(
            ada.user_id, "another password", current_password=PASSWORD
        )  # fmt: skip
    for _ in range(FREE_BY_NAME):
        with pytest.raises(Unauthenticated):
            await make_token(at(served.url), "ada", PASSWORD, NewToken(name="x"))
    with pytest.raises(TooManyAttempts):
        await make_token(at(served.url), "ada", "another password", NewToken(name="x"))
    with pytest.raises(BadInput):
        await make_token(at("no address"), "ada", PASSWORD, NewToken(name="x"))
    with pytest.raises(DaemonNotRunning):
        await make_token(at("http://127.0.0.1:9"), "ada", PASSWORD, NewToken(name="x"))
