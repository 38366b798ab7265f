"""Bodies: what is too much, what is not JSON, what is JSON and not what was asked for."""

from __future__ import annotations

import json

import pytest

from agor.daemon.api.settings import ApiSettings
from tests.api.raw import RawAnswer, RawConnection, spelled
from tests.api.serving import Served
from tests.contract.waiting import soon, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

MOST = ApiSettings().max_body


async def post(shared: Served, body: bytes, path: str = "/sessions", **headers: str) -> RawAnswer:
    async with await RawConnection.open(shared.port) as connection:
        await connection.send(spelled("POST", path, shared.token, body, **headers))
        return await connection.answer()


def session(shared: Served, **members: object) -> bytes:
    new = {"agentic_tool": "scripted", "workspace": str(shared.folder), **members}
    return json.dumps(new).encode()


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces) + b"0\r\n\r\n"


# ── size ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_body_of_the_longest_length_is_read(shared: Served) -> None:
    answer = await post(shared, session(shared).ljust(MOST))
    assert answer.status == 201


async def test_a_longer_body_is_too_large(shared: Served) -> None:
    answer = await post(shared, session(shared).ljust(MOST + 1))
    assert answer.status == 413
    assert answer.json["code"] == "too_large"


async def test_a_longer_body_is_too_large_even_if_its_length_is_not_told(shared: Served) -> None:
    body = session(shared).ljust(MOST + 1)
    head = spelled(
        "POST", "/sessions", shared.token, transfer_encoding="chunked",
        content_type="application/json",
    )  # fmt: skip
    async with await RawConnection.open(shared.port) as connection:
        await connection.send(head + chunked(body, 70_000))
        assert (await connection.answer()).status == 413


async def test_a_body_in_pieces_is_put_together(shared: Served) -> None:
    head = spelled(
        "POST", "/sessions", shared.token, transfer_encoding="chunked",
        content_type="application/json",
    )  # fmt: skip
    async with await RawConnection.open(shared.port) as connection:
        for size in (1, 7, 1000):
            await connection.send(head + chunked(session(shared), size))
            assert (await connection.answer()).status == 201


async def test_a_body_without_an_end_is_not_read_to_it(shared: Served) -> None:
    head = spelled(
        "POST", "/sessions", shared.token, transfer_encoding="chunked",
        content_type="application/json",
    )  # fmt: skip
    piece = b"%x\r\n%b\r\n" % (65536, b" " * 65536)
    async with await RawConnection.open(shared.port) as connection:
        connection.writer.write(head)
        sent = 0
        try:
            while not connection.reader.at_eof() and sent < 100 * MOST:
                connection.writer.write(piece)
                await soon(connection.writer.drain())
                sent += len(piece)
        except ConnectionError:
            pass
        assert sent < 100 * MOST


async def test_who_waits_to_be_let_on_is_told_before_sending(shared: Served) -> None:
    head = spelled(
        "POST", "/sessions", shared.token, content_length=str(MOST + 1), expect="100-continue",
        content_type="application/json",
    )  # fmt: skip
    async with await RawConnection.open(shared.port) as connection:
        await connection.send(head)
        assert (await connection.answer()).status == 413


async def test_who_waits_to_be_let_on_is_let_on(shared: Served) -> None:
    body = session(shared)
    head = spelled(
        "POST", "/sessions", shared.token, content_length=str(len(body)), expect="100-continue",
        content_type="application/json",
    )  # fmt: skip
    async with await RawConnection.open(shared.port) as connection:
        await connection.send(head)
        assert (await connection.answer()).status == 100
        await connection.send(body)
        assert (await connection.answer()).status == 201


async def test_a_stranger_is_refused_before_the_body_is_read(shared: Served) -> None:
    head = spelled(
        "POST", "/sessions", "wrong", content_length=str(MOST), content_type="application/json"
    )
    async with await RawConnection.open(shared.port) as connection:
        await connection.send(head)
        assert (await connection.answer()).status == 401


# ── kind ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/JSON", "application/json; charset=utf-8",
     'application/json;charset="UTF-8"', "application/json ; charset=utf-8", "application/json;"],
)  # fmt: skip
async def test_json_may_be_called_so_in_many_ways(shared: Served, content_type: str) -> None:
    assert (await post(shared, session(shared), content_type=content_type)).status == 201


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
     "application/jsonx", "application/json; charset=utf-16", "application/problem+json", "json",
     "text/plain, application/json"],
)  # fmt: skip
async def test_what_is_not_called_json_is_not_read(shared: Served, content_type: str) -> None:
    answer = await post(shared, session(shared), content_type=content_type)
    assert answer.status == 415
    assert answer.json["code"] == "unsupported_media_type"


async def test_a_body_may_be_left_out_where_nothing_has_to_be_said(shared: Served) -> None:
    async with await RawConnection.open(shared.port) as connection:
        await connection.send(spelled("POST", "/tasks/none/stop", shared.token))
        assert (await connection.answer()).status == 404
        for body, status in ((b"{}", 404), (b'{"reason":"x"}', 404), (b"", 422), (b"[]", 422)):
            await connection.send(spelled("POST", "/tasks/none/stop", shared.token, body))
            assert (await connection.answer()).status == status
        untold = spelled("POST", "/tasks/none/stop", shared.token, content_length="2") + b"{}"
        await connection.send(untold)
        assert (await connection.answer()).status == 415


# ── form ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b"}", b"nul", b'{"agentic_tool":', b"{}{}", b"{} x", b"\xef\xbb\xbf{}",
        b'{"a":1,}', b"{'a':1}", b"NaN", b"\x00", b"\xff\xfe{\x00}\x00", b"[" * 1_000_000,
        b'{"a":' * 300_000, b"\x80", b'"' + b"a" * 1_000_000,
    ],
    ids=range(18),
)  # fmt: skip
async def test_what_is_not_json_is_refused(shared: Served, body: bytes) -> None:
    answer = await post(shared, body)
    assert answer.status == 422
    assert answer.json["detail"].startswith("body")
    assert len(answer.body) < 1000


@pytest.mark.parametrize(
    "text",
    [rb"\ud800", rb"\udc00", rb"\ud800A", rb"\udc00\ud800", b"\xff", b"\xed\xa0\x80", b"\xc0\x80",
     b"\x01", rb"\u00", rb"\x", rb"\u0000"],
)  # fmt: skip
async def test_text_that_is_none_is_refused(shared: Served, text: bytes) -> None:
    body = session(shared, title="MARK").replace(b"MARK", text)
    answer = await post(shared, body)
    assert answer.status == 422, answer


async def test_any_other_text_comes_back_as_it_went(shared: Served) -> None:
    title = 'ä€𝄞 "\\ \t\n\u2028 \uffff \x7f' + "\U0010ffff"
    answer = await post(shared, session(shared, title=title))
    assert answer.status == 201
    assert answer.json["title"] == title


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"agentic_tool": None}, "agentic_tool"), ({"agentic_tool": 1}, "agentic_tool"),
        ({"agentic_tool": ""}, "agentic_tool"), ({"agentic_tool": "a" * 257}, "agentic_tool"),
        ({"workspace": "here"}, "workspace"), ({"workspace": "/" + "a" * 4096}, "workspace"),
        ({"workspace": "/nowhere/at/all"}, "workspace"), ({"title": ["x"]}, "title"),
        ({"permission_mode": "never"}, "permission_mode"), ({"environment": "mars"}, "environment"),
        ({"titel": "x"}, "titel"), ({"": 1}, ""),
    ],
)  # fmt: skip
async def test_a_member_that_does_not_fit_is_named(
    shared: Served, members: dict[str, object], field: str
) -> None:
    answer = await post(shared, session(shared, **members))
    assert answer.status == 422
    assert field in answer.json["detail"]


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"x"', b"true", b"{}"])
async def test_json_that_is_no_session_is_refused(shared: Served, body: bytes) -> None:
    assert (await post(shared, body)).status == 422


# ── those who do not finish ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("part", [b"", b"{", b'{"agentic_tool"'])
async def test_who_hangs_up_in_the_middle_leaves_nothing_behind(
    shared: Served, part: bytes
) -> None:
    assert shared.server._server is not None
    state = shared.server._server.server_state
    before = shared.count("agor_http_requests_total", route="POST /sessions", status="500")
    connection = await RawConnection.open(shared.port)
    head = spelled(
        "POST", "/sessions", shared.token, content_length="1000", content_type="application/json"
    )
    await connection.send(head + part)
    await until(lambda: len(state.tasks) == 1)
    connection.close()
    await until(lambda: not state.tasks)
    after = shared.count("agor_http_requests_total", route="POST /sessions", status="500")
    assert after == before
