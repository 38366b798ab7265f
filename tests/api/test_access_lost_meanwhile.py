"""Access that ends while a request is under way: it counts when the thing is done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.services.principal import Principal
from tests.api.raw import RawAnswer, RawConnection, spelled
from tests.api.world import Person, World, peopled
from tests.contract.waiting import soon, until


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with peopled(tmp_path) as one:
        yield one


async def slowly(
    world: World, who: Person, path: str, form: Any, meanwhile: Callable[[], Any]
) -> RawAnswer:
    """Send a request whose body comes only when something else has been done."""
    asked: list[str] = []
    authenticator = world.served.app._authenticator
    authenticate = authenticator.authenticate

    def watched(
        method: str, headers: Mapping[bytes, bytes], address: str, https: bool
    ) -> Principal:
        asked.append(method)
        return authenticate(method, headers, address, https)

    body = json.dumps(form).encode()
    async with await RawConnection.open(world.served.port) as connection:
        authenticator.authenticate = watched  # type: ignore[method-assign]
        await connection.send(spelled("POST", path, who.token, body)[: -len(body)])
        await until(lambda: bool(asked))
        await meanwhile()
        await connection.send(body)
        return await connection.answer()


async def test_a_token_that_is_revoked_before_the_body_came_makes_no_other(world: World):
    ann = await world.person()
    (listed,) = (await world.ask(ann, "GET", "/tokens"))["items"]

    async def revoke() -> None:
        await world.ask(None, "DELETE", f"/tokens/{listed['token_id']}")

    answer = await slowly(world, ann, "/tokens", {"name": "heir", "expires_at": None}, revoke)
    assert answer.status == 401
    found = await world.ask(None, "GET", f"/tokens?user_id={ann.user_id}")
    assert found["items"] == []


async def test_somebody_who_is_disabled_before_the_body_came_begins_nothing(world: World):
    ann = await world.person()
    new = {"agentic_tool": "scripted", "workspace": str(world.served.folder)}

    async def disable() -> None:
        await world.ask(None, "PATCH", f"/users/{ann.user_id}", {"disabled": True})

    assert (await slowly(world, ann, "/sessions", new, disable)).status == 401
    assert (await world.ask(None, "GET", "/sessions?whose=all"))["items"] == []


async def test_an_admin_who_is_none_before_the_body_came_adds_nobody(world: World):
    boss = await world.person("admin")
    new = {"name": "friend", "password": "correct horse battery"}
    answer = await slowly(world, boss, "/users", new, lambda: world.set_role(boss, "member"))
    assert answer.status == 403
    assert world.served.daemon.people.named("friend") is None


async def test_who_waits_for_their_turn_is_asked_again_who_they_are(world: World):
    """Two owners who take the role of each other: whoever is second is no owner any more."""
    ann, bob = await world.person("owner"), await world.person("owner")
    turn = world.served.daemon.people.turn
    async with turn:
        changes = []
        for who, whom in ((ann, bob), (bob, ann)):
            change = world.send("PATCH", f"/users/{whom.user_id}", {"role": "viewer"}, who.headers)
            changes.append(asyncio.create_task(change))
            await until(lambda: len(turn._waiters or ()) == len(changes))
    first, second = [(await soon(change)).status_code for change in changes]
    assert (first, second) == (200, 403)
    assert world.served.daemon.people.get(ann.user_id).role == "owner"


async def test_an_admin_who_is_disabled_while_a_password_is_hashed_has_not_set_it(world: World):
    boss, ann = await world.person("admin"), await world.person()
    daemon = world.served.daemon
    hashing = daemon.passwords.hash

    async def hash_slowly(password: str) -> str:
        await world.ask(None, "PATCH", f"/users/{boss.user_id}", {"disabled": True})
        return await hashing(password)

    daemon.passwords.hash = hash_slowly  # type: ignore[method-assign]
    path, new = f"/users/{ann.user_id}/password", {"password": "correct horse battery"}
    refused = await world.send("PUT", path, new, boss.headers)
    assert refused.status_code == 403
    assert daemon.people.get(ann.user_id).password_hash is None


@pytest.mark.parametrize("left", ["view", None])
async def test_a_share_that_is_taken_back_before_a_prompts_turn_came_prompts_nothing(
    world: World, left: str | None
):
    ann, bob = await world.person(), await world.person()
    session = await world.session(ann)
    await world.share(ann, session, bob, "prompt")
    live = await world.served.daemon.lives.get(session)
    share, prompt = f"/sessions/{session}/shares/{bob.user_id}", f"/sessions/{session}/prompt"
    async with live.lock:
        method, body = ("DELETE", None) if left is None else ("PUT", {"access": left})
        taken = asyncio.create_task(world.ask(ann, method, share, body))
        await until(lambda: len(live.lock._waiters or ()) == 1)
        asked = asyncio.create_task(world.send("POST", prompt, {"prompt": "x"}, bob.headers))
        await until(lambda: len(live.lock._waiters or ()) == 2)
    await soon(taken)
    assert (await soon(asked)).status_code == (404 if left is None else 403)
    assert (await world.ask(ann, "GET", f"/sessions/{session}/tasks"))["items"] == []


@pytest.mark.parametrize("when", ["at once", "at the next start"])
@pytest.mark.parametrize("left", ["view", None, "role"])
async def test_who_may_not_prompt_any_more_as_a_guest_has_nothing_under_way(
    world: World, left: str | None, when: str
):
    ann, bob = await world.person(), await world.person()
    session = await world.session(ann)
    await world.share(ann, session, bob, "prompt")
    running = await world.task(bob, session)
    waiting = await world.later_task(bob, session)
    anns_own = await world.later_task(ann, session)
    daemon = world.served.daemon
    if when == "at the next start":
        # The daemon that took it from them ends before it gets any further.
        daemon.shares.on_less.clear()
        daemon.people.on_change.clear()
    share = f"/sessions/{session}/shares/{bob.user_id}"
    if left == "role":
        await world.set_role(bob, "viewer")
    elif left is None:
        await world.ask(ann, "DELETE", share)
    else:
        await world.ask(ann, "PUT", share, {"access": left})
    if when == "at the next start":
        daemon.departures.recover()
    for task_id in (running, waiting):
        ended = await world.until(ann, task_id, "stopped")
        assert "may not prompt in this session any more" in json.dumps(ended)
    await world.until(ann, anns_own, "completed")
