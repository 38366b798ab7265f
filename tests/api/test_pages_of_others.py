"""A page that somebody visits has their browser ask us, with their cookie: what it can do."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.api.people import PASSWORD, add, asking, cheapen, sign_in
from tests.api.raw import RawAnswer, RawConnection, spelled
from tests.api.serving import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: method → path. What there is not is a 404 for those who are let in.
ASKED = {
    "GET": "/auth/me",
    "HEAD": "/auth/me",
    "POST": "/tokens",
    "PUT": "/users/none/password",
    "PATCH": "/users/none",
    "DELETE": "/tokens/none",
    "WEBSOCKET": "/sessions/none/events",
}
ORIGINS = ["none", "own", "null", "foreign", "other port", "https"]
SITES = ["none", "same-origin", "same-site", "cross-site", "navigated"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cookie(shared: Served) -> AsyncIterator[str]:
    """The cookie of an owner's browser."""
    cheapen(shared.daemon)
    await add(shared, "ada", "owner", password=PASSWORD)
    async with asking(shared) as browser:
        answer = await sign_in(browser, "ada", PASSWORD)
        yield answer.headers["set-cookie"].partition(";")[0]


async def ask(shared: Served, method: str, headers: dict[str, str]) -> RawAnswer:
    headers["host"] = f"127.0.0.1:{shared.port}"
    body = b"{}" if method in ("POST", "PUT", "PATCH") else None
    if method == "WEBSOCKET":
        headers |= {
            "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
            "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        }  # fmt: skip
    async with await RawConnection.open(shared.port) as connection:
        verb = "GET" if method == "WEBSOCKET" else method
        await connection.send(spelled(verb, ASKED[method], None, body, **headers))
        return await connection.answer(head=method == "HEAD")


def is_let_in(method: str, origin: str, site: str, by: str) -> bool:
    """The rule, said another way than the program says it."""
    if origin not in ("none", "own"):
        return False
    if by != "cookie" or method in ("GET", "HEAD") or origin == "own":
        return True
    return method != "WEBSOCKET" and site == "same-origin"


@pytest.mark.parametrize("by", ["cookie", "bearer", "both"])
@pytest.mark.parametrize("method", ASKED)
async def test_only_pages_of_the_daemon_change_anything_with_a_cookie(
    shared: Served, cookie: str, method: str, by: str
) -> None:
    origins = {
        "own": f"http://127.0.0.1:{shared.port}",
        "null": "null",
        "foreign": "http://evil.example",
        "other port": f"http://127.0.0.1:{shared.port - 1}",
        "https": f"https://127.0.0.1:{shared.port}",
    }
    for origin, site in itertools.product(ORIGINS, SITES):
        headers = {}
        if by != "bearer":
            headers["cookie"] = cookie
        if by != "cookie":
            headers["authorization"] = f"Bearer {shared.token}"
        if origin != "none":
            headers["origin"] = origins[origin]
        if site != "none":
            headers["sec-fetch-site"] = "none" if site == "navigated" else site
        answer = await ask(shared, method, headers)
        assert answer.status != 401, (origin, site)
        assert (answer.status != 403) == is_let_in(method, origin, site, by), (origin, site)
        assert answer.status < 500


async def test_a_token_counts_more_than_a_cookie(shared: Served, cookie: str) -> None:
    async with asking(shared) as client:
        both = {"cookie": cookie, "authorization": f"Bearer {shared.token}"}
        assert (await client.get("/auth/me", headers=both)).json()["via"] == "local_token"
        both["authorization"] = "Bearer wrong"
        assert (await client.get("/auth/me", headers=both)).status_code == 401
        both["authorization"] = "Basic YTpi"
        assert (await client.get("/auth/me", headers=both)).status_code == 401


@pytest.mark.parametrize(
    "damage",
    [lambda it: it[:-1], lambda it: it + "x", lambda it: it.replace("agor_", "agor_1"),
     lambda it: it.partition("=")[0] + "=", lambda it: it.partition("=")[2],
     lambda it: "__Host-" + it, lambda it: it.swapcase(), lambda it: it.replace("=", "=="),
     lambda it: it.partition("=")[0] + "=\x80\xff", lambda it: ";;=;" ],
)  # fmt: skip
async def test_a_cookie_that_is_not_ours_is_none(shared: Served, cookie: str, damage) -> None:
    headers = {"cookie": damage(cookie), "origin": f"http://127.0.0.1:{shared.port}"}
    assert (await ask(shared, "GET", headers)).status == 401


async def test_our_cookie_is_found_among_others(shared: Served, cookie: str) -> None:
    for header in (f"a=1; {cookie}", f"{cookie}; b=2", f"a=1;{cookie};b=", f"x; {cookie}"):
        assert (await ask(shared, "GET", {"cookie": header})).status == 200


async def test_two_cookie_headers_are_refused(shared: Served, cookie: str) -> None:
    async with await RawConnection.open(shared.port) as connection:
        request = spelled("GET", "/auth/me", cookie=cookie)
        await connection.send(request.replace(b"\r\n\r\n", b"\r\ncookie: a=1\r\n\r\n"))
        assert (await connection.answer()).status == 400
