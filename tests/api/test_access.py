"""Who is let in, and from where: walked over every route there is."""

from __future__ import annotations

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from agor.daemon.api.gate import check_host
from agor.daemon.api.route import WEBSOCKET, Route
from agor.daemon.api.routes import ROUTES
from agor.errors import BadConfig
from tests.api.raw import RawAnswer, RawConnection, spelled
from tests.api.serving import Served
from tests.contract.waiting import soon

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALL = [pytest.param(route, id=route.name) for route in ROUTES]
GUARDED = [pytest.param(route, id=route.name) for route in ROUTES if route.token]
OPEN = {"/livez", "/readyz", "/openapi.json", "/docs", "/auth/login"}

#: Names by which a daemon on 127.0.0.1 may be called, and others.
OWN_NAMES = ("127.0.0.1", "127.0.0.1:3030", "localhost", "localhost:1", "LOCALHOST:80", "[::1]",
             "[::1]:65535")  # fmt: skip
OTHER_NAMES = (
    "", "evil.example", "evil.example:3030", "127.0.0.1.evil.example", "localhost.evil.example",
    "0.0.0.0", "127.0.0.2", "::1", "[::2]", "localhost:", "localhost:x", "localhost:123456",
    "user@localhost", "localhost@evil.example", "localhost, evil.example", "localhost/",
)  # fmt: skip


def concrete(route: Route) -> str:
    return "/".join("none" if part.startswith("{") else part for part in route.path.split("/"))


async def ask(shared: Served, route: Route, **headers: str) -> RawAnswer:
    """Ask for a route, whichever kind it is, with these headers and no others."""
    method = route.method
    if method == WEBSOCKET:
        method = "GET"
        headers |= {
            "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
            "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        }  # fmt: skip
    async with await RawConnection.open(shared.port) as connection:
        await connection.send(spelled(method, concrete(route), **headers))
        return await connection.answer()


def is_problem(answer: RawAnswer, status: int, code: str) -> None:
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["code"] == code
    assert answer.json["status"] == status
    assert answer.json["type"] == f"urn:agor:error:{code}"


# ── tokens ───────────────────────────────────────────────────────────────────────────────────


async def test_what_needs_no_token_is_this_list() -> None:
    assert {route.path for route in ROUTES if not route.token} == OPEN


@pytest.mark.parametrize("route", GUARDED)
@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", "bearer " + "A" * 43, "Basic {token}",
     "{token}",
     "Bearer {token}x", "Bearer {token} x", "Bearer {token},Bearer {token}", "Bearer\t{token}"],
)  # fmt: skip
async def test_nobody_comes_in_without_the_token(
    shared: Served, route: Route, authorization: str | None
) -> None:
    headers = {}
    if authorization is not None:
        headers["authorization"] = authorization.format(token=shared.token)
    answer = await ask(shared, route, **headers)
    is_problem(answer, 401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert shared.token not in answer.body.decode()


@pytest.mark.parametrize("route", ALL)
async def test_who_has_the_token_comes_in_everywhere(shared: Served, route: Route) -> None:
    answer = await ask(shared, route, authorization=f"bearer  {shared.token}")
    assert answer.status not in (401, 403, 500), answer


@pytest.mark.parametrize("route", GUARDED)
async def test_a_token_in_the_address_is_no_token(shared: Served, route: Route) -> None:
    async with await RawConnection.open(shared.port) as connection:
        address = f"{concrete(route)}?access_token={shared.token}&token={shared.token}"
        method = "GET" if route.method == WEBSOCKET else route.method
        await connection.send(spelled(method, address))
        assert (await connection.answer()).status == 401


# ── Host and Origin ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("route", ALL)
@pytest.mark.parametrize("host", OTHER_NAMES)
async def test_a_name_that_is_not_ours_is_refused_everywhere(
    shared: Served, route: Route, host: str
) -> None:
    answer = await ask(shared, route, host=host, authorization=f"Bearer {shared.token}")
    is_problem(answer, 403, "forbidden")


@pytest.mark.parametrize("host", OWN_NAMES)
async def test_our_own_names_are_taken_with_any_port(shared: Served, host: str) -> None:
    async with await RawConnection.open(shared.port) as connection:
        await connection.send(spelled("GET", "/livez", host=host))
        assert (await connection.answer()).status == 200


async def test_a_request_without_a_host_is_refused(shared: Served) -> None:
    async with await RawConnection.open(shared.port) as connection:
        await connection.send(b"GET /livez HTTP/1.1\r\n\r\n")
        assert (await connection.answer()).status == 403
        await connection.send(b"GET /livez HTTP/1.0\r\n\r\n")
        assert (await connection.answer()).status == 403


@pytest.mark.parametrize("route", ALL)
@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://evil.example", "https://127.0.0.1:3030", "http://127.0.0.1",
     "http://127.0.0.1:3031", "http://localhost:3030", "http://127.0.0.1:3030/",
     "http://127.0.0.1:3030.evil.example", "file://"],
)  # fmt: skip
async def test_the_page_of_another_is_refused_everywhere(
    shared: Served, route: Route, origin: str
) -> None:
    answer = await ask(
        shared, route, host="127.0.0.1:3030", origin=origin,
        authorization=f"Bearer {shared.token}",
    )  # fmt: skip
    is_problem(answer, 403, "forbidden")
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("route", ALL)
async def test_our_own_page_is_let_in(shared: Served, route: Route) -> None:
    answer = await ask(
        shared, route, host="LocalHost:3030", origin="http://localhost:3030",
        authorization=f"Bearer {shared.token}",
    )  # fmt: skip
    assert answer.status not in (401, 403, 500)


async def test_a_websocket_is_refused_before_it_is_one(shared: Served) -> None:
    url = f"ws://127.0.0.1:{shared.port}/sessions/none/events"
    refusals = []
    for headers in ({}, {"authorization": "Bearer wrong"}, shared.headers):
        with pytest.raises(InvalidStatus) as refused:
            await soon(connect(url, additional_headers=headers, proxy=None).__aenter__())
        response = refused.value.response
        assert response.headers["content-type"] == "application/problem+json"
        refusals.append(response.status_code)
    assert refusals == [401, 401, 404]


# ── where it listens ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"])
async def test_it_may_listen_on_this_machine(host: str) -> None:
    check_host(host, can_sign_in=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1"])
async def test_it_may_listen_wider_once_somebody_has_a_password(host: str) -> None:
    check_host(host, can_sign_in=True)
    with pytest.raises(BadConfig) as refused:
        check_host(host, can_sign_in=False)
    assert "daemon.host" in refused.value.message
    assert "agor user set-password" in str(refused.value.hint)


@pytest.mark.parametrize("host", ["", "example.org", "[::1]"])
async def test_what_is_no_address_is_refused_in_any_case(host: str) -> None:
    for can_sign_in in (False, True):
        with pytest.raises(BadConfig) as refused:
            check_host(host, can_sign_in=can_sign_in)
        assert "daemon.host" in refused.value.message
        assert refused.value.hint


async def test_a_stranger_learns_nothing_of_what_there_is(shared: Served) -> None:
    session_id = await shared.new_session()
    async with httpx.AsyncClient(base_url=shared.url, trust_env=False) as stranger:
        real = await stranger.get(f"/sessions/{session_id}")
        none = await stranger.get("/sessions/none")
    assert real.status_code == none.status_code == 401
    assert real.content == none.content
