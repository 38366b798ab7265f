"""Connections of those who do not play fair, or not at all: each is bounded, and alone in it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agor.daemon.api.settings import ApiSettings
from tests.api.feeds import small_socket
from tests.api.raw import RawConnection, spelled
from tests.api.serving import Served, serving
from tests.contract.waiting import until

#: So short that a test can wait for it.
HASTY = ApiSettings(request_timeout=0.3, keep_alive=1)


@pytest.fixture
async def hasty(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path, settings=HASTY) as one:
        yield one


def connections(served: Served) -> int:
    assert served.server._server is not None
    return len(served.server._server.server_state.connections)


# ── slowness ─────────────────────────────────────────────────────────────────────────────────


async def test_who_says_nothing_is_hung_up_on(hasty: Served) -> None:
    async with await RawConnection.open(hasty.port) as connection:
        assert await connection.ended() == b""


@pytest.mark.parametrize(
    "part", [b"G", b"GET /livez HTTP/1.1\r\n", b"GET /livez HTTP/1.1\r\nhost: "]
)
async def test_a_head_that_does_not_end_is_given_up(hasty: Served, part: bytes) -> None:
    async with await RawConnection.open(hasty.port) as connection:
        await connection.send(part)
        answer = await connection.answer()
        assert answer.status == 408
        assert answer.json["code"] == "timed_out"
        assert await connection.ended() == b""


async def test_a_byte_now_and_then_buys_no_time(hasty: Served) -> None:
    async with await RawConnection.open(hasty.port) as connection:
        await connection.send(b"GET /livez HTTP/1.1\r\n")

        async def drip() -> None:
            while True:
                connection.writer.write(b"x: y\r\n")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        answer = await connection.answer()
        dripping.cancel()
        assert answer.status == 408


async def test_a_body_that_does_not_end_is_given_up(hasty: Served) -> None:
    head = spelled(
        "POST", "/sessions", hasty.token, content_length="100", content_type="application/json"
    )
    async with await RawConnection.open(hasty.port) as connection:
        await connection.send(head + b"{")
        assert (await connection.answer()).status == 408
        assert await connection.ended() == b""
    assert hasty.server._server is not None
    state = hasty.server._server.server_state
    await until(lambda: not state.tasks)


async def test_a_refused_body_that_does_not_end_is_given_up_too(hasty: Served) -> None:
    head = spelled("POST", "/sessions", "wrong", content_length="1000000")
    async with await RawConnection.open(hasty.port) as connection:
        await connection.send(head + b"{")
        assert (await connection.answer()).status == 401
        assert await connection.ended() == b""


@pytest.mark.parametrize("stray", [b"", b"\r\n", b"\r\n\r\n"])
async def test_a_used_connection_that_is_idle_is_hung_up_on(hasty: Served, stray: bytes) -> None:
    async with await RawConnection.open(hasty.port) as connection:
        await connection.send(spelled("GET", "/livez"))
        assert (await connection.answer()).status == 200
        await connection.send(stray)
        assert await connection.ended() == b""


async def test_time_is_counted_for_each_request_anew(hasty: Served) -> None:
    loop = asyncio.get_running_loop()
    request = spelled("GET", "/livez")
    async with await RawConnection.open(hasty.port) as connection:
        long_enough = loop.time() + 2 * HASTY.request_timeout
        while loop.time() < long_enough:
            await connection.send(request[:20])
            await connection.send(request[20:])
            assert (await connection.answer()).status == 200


async def test_who_does_not_read_the_answers_is_hung_up_on(tmp_path: Path) -> None:
    async with serving(tmp_path, settings=ApiSettings(stall_timeout=0.1)) as served:
        with small_socket(served) as end:
            await asyncio.get_running_loop().sock_sendall(end, spelled("GET", "/docs") * 400)
            await until(lambda: connections(served) == 1)
            await until(lambda: connections(served) == 0)
        assert served.server._server is not None
        state = served.server._server.server_state
        await until(lambda: not state.tasks)


async def test_who_does_not_read_the_last_answer_is_hung_up_on(tmp_path: Path) -> None:
    async with serving(tmp_path, settings=ApiSettings(keep_alive=1)) as served:
        assert served.server._server is not None
        state: Any = served.server._server.server_state
        loop = asyncio.get_running_loop()

        def more(before: int) -> bool:
            return bool(state.total_requests > before)

        with small_socket(served) as end:
            await until(lambda: len(state.connections) == 1)
            (connection,) = state.connections
            # Until one answer stays with us, all of it written and not all of it sent.
            while connection.transport.get_write_buffer_size() == 0:
                before = state.total_requests
                await loop.sock_sendall(end, spelled("GET", "/docs"))
                await until(partial(more, before))
            await until(lambda: not state.connections)


# ── too much ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1024, 2**16, 2**22])
async def test_a_head_without_end_is_cut_short(served: Served, size: int) -> None:
    async with await RawConnection.open(served.port) as connection:
        connection.writer.write(b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ")
        sent = 0
        try:
            while not connection.reader.at_eof() and sent < 2**23:
                connection.writer.write(b"a" * size)
                await connection.writer.drain()
                await asyncio.sleep(0)
                sent += size
        except ConnectionError:
            pass
        assert sent < 2**23
    await until(lambda: connections(served) <= 1)


@pytest.mark.parametrize(
    "request_line",
    [b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
     b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
     b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"a" * 40_000 + b"\r\n\r\n"],
    ids=["path", "many", "long"],
)  # fmt: skip
async def test_a_head_that_is_too_long_is_told_so(served: Served, request_line: bytes) -> None:
    async with await RawConnection.open(served.port) as connection:
        await connection.send(request_line)
        answer = await connection.answer()
    assert answer.status == 431
    assert answer.json["code"] == "too_large"


async def test_a_head_of_a_browser_with_many_cookies_is_taken(served: Served) -> None:
    async with await RawConnection.open(served.port) as connection:
        request = spelled("GET", "/livez", cookie="a" * 16_000, x="b" * 8_000)
        for at in range(0, len(request), 1000):
            await connection.send(request[at : at + 1000])
        assert (await connection.answer()).status == 200


async def test_one_connection_too_many_is_told_so(tmp_path: Path) -> None:
    most = 8
    async with serving(tmp_path, settings=ApiSettings(max_connections=most)) as few:
        await one_too_many(few, most)


async def one_too_many(few: Served, most: int) -> None:
    held = [await RawConnection.open(few.port) for _ in range(most)]
    await until(lambda: connections(few) == most)
    async with await RawConnection.open(few.port) as connection:
        answer = await connection.answer()
        assert answer.status == 503
        assert answer.json["code"] == "overloaded"
        assert int(answer.headers["retry-after"]) >= 1
    for each in held:
        each.close()
    await until(lambda: connections(few) == 0)
    async with await RawConnection.open(few.port) as connection:
        await connection.send(spelled("GET", "/livez"))
        assert (await connection.answer()).status == 200


# ── what is not HTTP ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"hello\r\n\r\n", b"GET\r\n\r\n",
     b"GET /livez HTTP/9.9\r\n\r\n", b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
     b"GET /livez HTTP/1.1\r\nhost : x\r\n\r\n", b"\x00" * 100,
     b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
     b"POST /sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\nhost: localhost\r\n\r\n"],
    ids=range(11),
)  # fmt: skip
async def test_what_is_not_http_is_refused_and_hung_up_on(served: Served, garbage: bytes) -> None:
    async with await RawConnection.open(served.port) as connection:
        await connection.send(garbage)
        answer = await connection.answer()
        assert answer.status in (400, 404)
        assert answer.json["code"] in ("bad_input", "not_found")
    assert (await served.ask.get("/livez")).status_code == 200


async def test_bytes_at_random_end_in_no_500(served: Served) -> None:
    generator = random.Random(7)
    pieces = [
        b"GET ", b"POST ", b"/sessions", b" HTTP/1.1", b"\r\n", b"host: localhost", b": ",
        b"content-length: 5", b"transfer-encoding: chunked", b"upgrade: websocket",
        b"connection: upgrade", b"\x00", b"\xff", b"%", b"{}", b"5\r\nabcde\r\n", b"?a=b",
    ]  # fmt: skip
    for _ in range(150):
        data = b"".join(generator.choice(pieces) for _ in range(generator.randrange(3, 25)))
        async with await RawConnection.open(served.port) as connection:
            await connection.send(data + b"\r\n\r\n")
            connection.writer.write_eof()
            assert b" 500 " not in await connection.ended()
    assert (await served.ask.get("/livez")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"connection": "upgrade", "upgrade": "h2c"}, {"connection": "upgrade", "upgrade": "x"},
     {"upgrade": "websocket"}],
)  # fmt: skip
async def test_an_upgrade_to_something_else_is_not_made(
    served: Served, headers: dict[str, str]
) -> None:
    async with await RawConnection.open(served.port) as connection:
        await connection.send(spelled("GET", "/livez", **headers))
        assert (await connection.answer()).status == 200


@pytest.mark.parametrize(
    "change",
    [{"sec-websocket-version": "12"}, {"sec-websocket-key": "short"}, {"x": "a" * 10_000},
     {"sec-websocket-key": ""}],
    ids=["version", "key", "long", "no key"],
)  # fmt: skip
async def test_a_handshake_that_is_none_is_refused(served: Served, change: dict[str, str]) -> None:
    headers = {
        "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", **change,
    }  # fmt: skip
    async with await RawConnection.open(served.port) as connection:
        await connection.send(spelled("GET", "/sessions/none/events", served.token, **headers))
        answer = await connection.answer()
        assert 400 <= answer.status < 500
        await connection.ended()
    await until(lambda: connections(served) == 0)
