"""Every route by every role, tie and kind of token, from the tables of routes and of rules.

A route that is new has no way to be tried here, and fails the first test.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from agor.daemon.api.route import WEBSOCKET, Route
from agor.daemon.api.routes import ROUTES
from agor.daemon.services import access
from agor.daemon.services.access import Action, Tie
from agor.daemon.services.principal import Principal
from agor.protocol.people import Role
from tests.api.world import ROLES, Person, World, peopled

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Makes what a path names: for an owner, and if it is in a session, in that one.
Make = Callable[[World, Person, str], Awaitable[str]]


@dataclass(frozen=True)
class Thing:
    """A kind of things that paths name."""

    #: What it takes to know that there is one.
    view: Action
    make: Make
    #: Whether it is in a session, and shared with it.
    in_session: bool = False


async def _session(world: World, owner: Person, session_id: str) -> str:
    return session_id


THINGS: dict[str, Thing] = {
    "session_id": Thing("session.view", _session, in_session=True),
    "task_id": Thing(
        "session.view",
        lambda world, owner, session_id: world.waiting_task(owner, session_id),
        in_session=True,
    ),
    "permission_id": Thing(
        "session.view",
        lambda world, owner, session_id: world.permission(owner, session_id),
        in_session=True,
    ),
    "terminal_id": Thing(
        "session.view",
        lambda world, owner, session_id: world.terminal(owner, session_id),
        in_session=True,
    ),
    "token_id": Thing("token.list", lambda world, owner, _: world.token(owner)),
    "rule_id": Thing("rule.list", lambda world, owner, _: world.rule(owner)),
    "name": Thing("credential.list", lambda world, owner, _: world.credential(owner)),
    "repo_id": Thing("repo.view", lambda world, owner, _: world.repo(owner)),
    "worktree_id": Thing("worktree.view", lambda world, owner, _: world.worktree(owner)),
}

RULE = {"effect": "deny", "tool": "Bash", "scope": "user", "input": {}}
#: What is sent to each route that takes a body.
BODIES: dict[str, Any] = {
    "POST /sessions": {"agentic_tool": "scripted", "workspace": "/"},
    "PATCH /sessions/{session_id}": {"title": "another"},
    "POST /sessions/{session_id}/prompt": {"prompt": "hello"},
    "PUT /sessions/{session_id}/shares/{user_id}": {"access": "view"},
    "POST /sessions/{session_id}/terminals": {"cols": 100, "shell": "/bin/sh"},
    "PATCH /tasks/{task_id}": {"queue_position": 1},
    "POST /tasks/{task_id}/stop": {},
    "POST /permissions/{permission_id}/decision": {"approved": False},
    "POST /users": {"name": "{unused}"},
    "PATCH /users/{user_id}": {"unix_username": None},
    "PUT /users/{user_id}/password": {"password": "long enough for that"},
    "POST /tokens": {"name": "mine"},
    "POST /permission-rules": RULE,
    "POST /permission-rules/preview": RULE,
    "PUT /credentials/{name}": {"value": "another-value"},
    "POST /credentials/rotation": {},
    "POST /repos": {"path": "/nowhere"},
    "POST /repos/{repo_id}/worktrees": {},
    "POST /worktree-orphans/prune": {"dry_run": True},
}
#: Good answers that are no success: who asks was let in, and told that it cannot be.
ALSO_GOOD: dict[str, set[int]] = {
    "POST /repos": {422},
    "PUT /users/{user_id}/password": {422, 401, 403},
    "POST /auth/logout": {409},
    "GET /sessions/{session_id}/diff": {409},
    "GET /sessions/{session_id}/transcript": {409},
}
#: Of those who may, some may only for one more reason; tests of their own say which.
NOT_HERE = {
    # With the local token only.
    "POST /auth/link",
    # By the roles of both.
    "PATCH /users/{user_id}",
}
_A_YEAR = 365 * 24 * 3600 * 1000
GUARDED = [route for route in ROUTES if route.action is not None]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """One for all of them: everybody and everything is made anew for each."""
    config: dict[str, Any] = {"execution.max_executors": 10_000}
    async with peopled(tmp_path_factory.mktemp("world"), **config) as one:
        yield one


def parts(route: Route) -> list[str]:
    """What its path names."""
    return [part[1:-1] for part in route.path.split("/") if part.startswith("{")]


async def ask(world: World, route: Route, path: str, headers: dict[str, str]) -> int:
    """Ask, and tell the status of the answer."""
    if route.method == WEBSOCKET:
        url = f"ws://127.0.0.1:{world.served.port}{path}"
        try:
            async with connect(url, additional_headers=headers, compression=None):
                return 101
        except InvalidStatus as refused:
            return refused.response.status_code
    if route.media == "text/event-stream":
        stream = world.client.stream(route.method, path, headers=headers)
        async with stream as answer:
            return answer.status_code
    body = BODIES.get(route.name)
    if body == {"name": "{unused}"}:
        body = {"name": world.unused_name()}
    return (await world.send(route.method, path, body, headers)).status_code


async def place(world: World, route: Route, owner: Person, caller: Person, tie: Tie) -> str:
    """Make what a route names, tied so to the caller, and tell the path."""
    named = parts(route)
    path = route.path
    if not named:
        return path
    session_id = ""
    if any(THINGS[name].in_session for name in named if name in THINGS):
        session_id = await world.session(owner)
    for name in named:
        if name != "user_id":
            made = await THINGS[name].make(world, owner, session_id)
        elif session_id:
            # Somebody else whom it is shared with.
            other = await world.person()
            await world.share(owner, session_id, other, "view")
            made = other.user_id
        else:
            made = owner.user_id
        path = path.replace(f"{{{name}}}", made)
    if session_id:
        await world.share(owner, session_id, caller, tie)
    return path


def expected(route: Route, role: Role, tie: Tie) -> set[int] | None:
    """The statuses of a refusal; none if it is allowed."""
    assert route.action is not None
    who = Principal(user_id="", name="", role=role)
    if role not in access.RULES[route.action].anybody:
        return {403}
    if access.may(who, route.action, tie):
        return None
    named = parts(route)
    view: Action = THINGS[named[0]].view if named[0] in THINGS else "user.view"
    return {403} if access.may(who, view, tie) else {404}


def ties_of(route: Route) -> list[Tie]:
    named = parts(route)
    if not named:
        return ["own"]
    shared = named[0] in THINGS and THINGS[named[0]].in_session
    return ["own", "prompt", "view", "none"] if shared else ["own", "none"]


async def test_every_route_can_be_tried_here():
    for route in GUARDED:
        assert set(parts(route)) <= {*THINGS, "user_id"}, route.name
        takes_body = route.body is not None
        assert takes_body == (route.name in BODIES), f"{route.name} needs a body here"
    assert set(BODIES) <= {route.name for route in ROUTES}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.name)
async def test_a_role_may_what_the_table_says_and_nothing_else(
    world: World, route: Route, role: Role
):
    if route.name in NOT_HERE:
        pytest.skip("tested by itself")
    other = await world.person()
    for tie in ties_of(route):
        # Whoever owns something was able to make it, and may be less than that now.
        caller = await world.person()
        path = await place(world, route, caller if tie == "own" else other, caller, tie)
        await world.set_role(caller, role)
        status = await ask(world, route, path, caller.headers)
        refused = expected(route, role, tie)
        if refused is None:
            good = {101, 200, 201, 202, 204} | ALSO_GOOD.get(route.name, set())
            assert status in good, f"{tie}: {status}"
        elif parts(route) == ["name"]:
            # Credentials are named, and everybody has names of their own.
            assert status in (200, 201, 403, 404), f"{tie}: {status}"
        else:
            assert status in refused, f"{tie}: {status} instead of {refused}"


async def bad_tokens(world: World) -> dict[str, dict[str, str]]:
    """Tokens that are worth nothing, by why."""
    daemon = world.served.daemon
    today = daemon.api_tokens.clock
    daemon.api_tokens.clock = lambda: today() - _A_YEAR
    expired = await world.person("owner")
    daemon.api_tokens.clock = today
    revoked, gone = await world.person("owner"), await world.person("owner")
    for token in (await world.ask(None, "GET", f"/tokens?user_id={revoked.user_id}"))["items"]:
        await world.ask(None, "DELETE", f"/tokens/{token['token_id']}")
    await world.ask(None, "PATCH", f"/users/{gone.user_id}", {"disabled": True})
    grant = daemon.tokens.mint("session", "task", gone.user_id, "executor")
    assert grant.token is not None
    return {
        "none": {},
        "bad": {"authorization": "Bearer agor_nonsense"},
        "no bearer": {"authorization": "Basic YTpi"},
        "expired": expired.headers,
        "revoked": revoked.headers,
        "of somebody disabled": gone.headers,
        "of an executor": {"authorization": f"Bearer {grant.token}"},
        "cookie": {"cookie": "agor_sign_in=nonsense"},
    }


async def test_no_route_lets_anybody_in_without_a_token_that_counts(world: World):
    session_id = await world.session(await world.person())
    tokens = await bad_tokens(world)
    async with asyncio.timeout(60):
        for route in GUARDED:
            path = route.path.replace("{session_id}", session_id).replace("{", "").replace("}", "")
            for why, headers in tokens.items():
                assert await ask(world, route, path, headers) == 401, f"{route.name}: {why}"
