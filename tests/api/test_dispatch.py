"""Which request finds which route, and what those are told that find none."""

from __future__ import annotations

import httpx
import pytest

from agor.daemon.api.route import WEBSOCKET
from agor.daemon.api.routes import ROUTES
from tests.api.raw import RawConnection, spelled
from tests.api.serving import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATHS = sorted({route.path for route in ROUTES})


def concrete(path: str) -> str:
    return "/".join("none" if part.startswith("{") else part for part in path.split("/"))


def methods_of(path: str) -> set[str]:
    found = {route.method for route in ROUTES if route.path == path} - {WEBSOCKET}
    return found | {"OPTIONS"} | ({"HEAD"} if "GET" in found else set())


@pytest.mark.parametrize(
    "path",
    [
        "/", "//", "/session", "/sessions/", "/sessions//", "//sessions", "/sessions/a/",
        "/Sessions", "/sessions/a/b", "/sessions/a/prompt/", "/sessions%2Fa",
        "/sessions/a%2Fprompt",
        "/sessions/%00", "/sessions/a.b", "/sessions/../livez", "/sessions/" + "a" * 129,
        "/sessions/%ff", "/sessions/ä".encode().decode("latin-1"), "/livez;x",
    ],
)  # fmt: skip
async def test_a_path_that_is_not_there_is_a_404_for_everybody(shared: Served, path: str) -> None:
    quoted = "".join(each if each.isascii() else f"%{ord(each):02x}" for each in path)
    async with await RawConnection.open(shared.port) as connection:
        await connection.send(spelled("GET", quoted))
        answer = await connection.answer()
    assert answer.status == 404
    assert answer.json["code"] == "not_found"
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"])
async def test_a_method_that_is_not_there_is_told_which_are(
    shared: Served, path: str, method: str
) -> None:
    if method in methods_of(path):
        return
    answer = await shared.ask.request(method, concrete(path))
    assert answer.status_code == 405
    assert answer.json()["code"] == "method_not_allowed"
    assert set(answer.headers["allow"].split(", ")) == methods_of(path)


@pytest.mark.parametrize("path", PATHS)
async def test_options_tells_the_methods_and_opens_nothing_to_strangers(
    shared: Served, path: str
) -> None:
    async with httpx.AsyncClient(base_url=shared.url, trust_env=False) as stranger:
        answer = await stranger.options(concrete(path))
    assert answer.status_code == 204
    assert set(answer.headers["allow"].split(", ")) == methods_of(path)
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert answer.content == b""


@pytest.mark.parametrize("path", ["/livez", "/sessions", "/health", "/docs", "/sessions/none"])
async def test_head_is_get_without_the_body(shared: Served, path: str) -> None:
    got = await shared.ask.get(path)
    headed = await shared.ask.head(path)
    assert headed.status_code == got.status_code
    assert headed.content == b""
    assert headed.headers["content-type"] == got.headers["content-type"]
    if path != "/health":  # whose length changes with the time it is up
        assert headed.headers["content-length"] == got.headers["content-length"]


async def test_head_of_a_feed_ends(shared: Served) -> None:
    session_id = await shared.new_session()
    answer = await shared.ask.head(f"/sessions/{session_id}/events")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert (await shared.ask.get("/livez")).status_code == 200


async def test_an_id_may_be_spelled_with_percents(shared: Served) -> None:
    session_id = await shared.new_session()
    spelled_out = "".join(f"%{ord(each):02X}" for each in session_id)
    answer = await shared.ask.get(f"/sessions/{spelled_out}")
    assert answer.json()["session_id"] == session_id


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("limit=0", "limit"), ("limit=201", "limit"), ("limit=-1", "limit"), ("limit=1.0", "limit"),
        ("limit=", "limit"), ("limit=x", "limit"), ("limit=+1", "limit"), ("limit=true", "limit"),
        ("limit=99999999999999999999", "limit"), ("limit=1&limit=2", "limit"),
        ("status=null", "status"), ("status=IDLE", "status"), ("status=", "status"),
        ("cursor=", "cursor"), ("cursor=" + "a" * 257, "cursor"), ("cursor=nonsense", "cursor"),
        ("cursor=1.%00", "cursor"), ("cursor=1." + "%C3%A4" * 100, "cursor"),
        ("limits=1", "limits"), ("limit", "query"), ("limit=%ff", "query"), ("a=1&" * 100, "query"),
        ("=1", "query"),
    ],
)  # fmt: skip
async def test_a_query_that_is_not_the_routes_is_refused_by_name(
    shared: Served, query: str, word: str
) -> None:
    answer = await shared.ask.get(f"/sessions?{query}")
    assert answer.status_code == 422, answer.text
    assert word in answer.json()["detail"]


@pytest.mark.parametrize("query", ["limit=1", "limit=200", "limit=007", "status=idle", "limit=%31"])
async def test_a_query_that_is_the_routes_is_taken(shared: Served, query: str) -> None:
    assert (await shared.ask.get(f"/sessions?{query}")).status_code == 200


@pytest.mark.parametrize("path", ["/livez?x=1", "/executors?limit=1", "/sessions/none?x"])
async def test_a_route_without_a_query_takes_none(shared: Served, path: str) -> None:
    assert (await shared.ask.get(path)).status_code == 422


async def test_a_post_takes_no_query(shared: Served) -> None:
    answer = await shared.ask.post("/sessions?limit=1", json={})
    assert answer.status_code == 422
    assert "limit" in answer.json()["detail"]


@pytest.mark.parametrize("header", ["host", "authorization", "content-type", "idempotency-key"])
async def test_a_header_that_must_be_one_is_refused_when_it_is_two(
    shared: Served, header: str
) -> None:
    request = spelled("POST", "/sessions", shared.token, b"{}", idempotency_key="a")
    head, _, rest = request.partition(b"\r\n")
    twice = b"\r\n".join((head, header.encode() + b": 127.0.0.1", rest))
    async with await RawConnection.open(shared.port) as connection:
        await connection.send(twice)
        answer = await connection.answer()
    assert answer.status == 400
    assert header in answer.json["detail"]


async def test_an_absolute_address_is_taken_by_its_path(shared: Served) -> None:
    async with await RawConnection.open(shared.port) as connection:
        await connection.send(spelled("GET", f"http://127.0.0.1:{shared.port}/livez"))
        assert (await connection.answer()).status == 200


async def test_requests_sent_at_once_are_answered_in_order(shared: Served) -> None:
    async with await RawConnection.open(shared.port) as connection:
        paths = ["/livez", "/nothing", "/readyz", "/sessions"] * 20
        await connection.send(b"".join(spelled("GET", path) for path in paths))
        statuses = [(await connection.answer()).status for _ in paths]
    assert statuses == [200, 404, 200, 401] * 20
