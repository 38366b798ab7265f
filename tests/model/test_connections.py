"""HTTP as clients speak it: kept connections, chunked bodies, HEAD, Expect, nonsense, too much."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from agor.testing.model import Bounds, ModelServer
from tests.model.asking import CHAT, body_of, scripted

PATIENCE = 60
BOUNDS = Bounds(body=100_000, head=10_000)


class Raw:
    """A client that sends what it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def head(self) -> str:
        async with asyncio.timeout(PATIENCE):
            return (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()

    async def body(self, head: str) -> bytes:
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        async with asyncio.timeout(PATIENCE):
            return await self._reader.readexactly(length)

    async def rest(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self._reader.read()

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(bounds=BOUNDS) as server:
        yield server


@pytest.fixture
async def raw(server) -> AsyncIterator[Raw]:
    port = int(server.url.rpartition(":")[2])
    raw = Raw(*await asyncio.open_connection("127.0.0.1", port))
    yield raw
    raw.close()


def post(prompt: str, *headers: str, stream: bool = False, version: str = "1.1") -> bytes:
    body = json.dumps(body_of(CHAT, prompt, stream=stream)).encode()
    lines = [f"POST {CHAT} HTTP/{version}", "host: x", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def said(body: bytes) -> str:
    text: str = json.loads(body)["choices"][0]["message"]["content"]
    return text


async def test_a_connection_is_kept_and_requests_sent_ahead_are_answered_in_order(raw):
    slow = scripted([{"delay_ms": 50}, {"text": "first"}])
    await raw.send(post(slow) + post("second") + post("third"))
    for expected in ("first", "echo: second", "echo: third"):
        assert said(await raw.body(await raw.head())) == expected
    await raw.send(post("fourth"))
    assert said(await raw.body(await raw.head())) == "echo: fourth"


async def test_a_stream_is_chunked_and_the_connection_can_go_on(raw):
    await raw.send(post("hi", stream=True))
    head = await raw.head()
    assert "transfer-encoding: chunked" in head
    await raw.send(post("next", "connection: close"))
    rest = await raw.rest()
    assert b"\r\n0\r\n\r\nHTTP/1.1 200" in rest
    assert rest.endswith(b"}")


async def test_to_an_old_client_a_stream_ends_with_the_connection(raw):
    await raw.send(post("hi", stream=True, version="1.0"))
    assert "transfer-encoding" not in await raw.head()
    assert (await raw.rest()).endswith(b"data: [DONE]\n\n")


async def test_a_body_may_come_in_chunks_byte_by_byte(raw):
    body = json.dumps(body_of(CHAT, "hi", stream=False)).encode()
    await raw.send(
        f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    )
    for byte in body:
        await raw.send(b"1\r\n%c\r\n" % byte)
    await raw.send(b"0\r\n\r\n")
    assert said(await raw.body(await raw.head())) == "echo: hi"


async def test_who_waits_for_100_continue_gets_it(raw):
    head, body = post("hi", "expect: 100-continue").split(b"\r\n\r\n", 1)
    await raw.send(head + b"\r\n\r\n")
    assert (await raw.head()).startswith("http/1.1 100")
    await raw.send(body)
    assert said(await raw.body(await raw.head())) == "echo: hi"


async def test_head_has_a_length_and_no_body(raw):
    await raw.send(b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\n" + post("next"))
    head = await raw.head()
    assert head.startswith("http/1.1 200")
    assert "content-length: 0" not in head
    assert said(await raw.body(await raw.head())) == "echo: next"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", "400"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: many\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nlong: " + b"x" * 20_000, "431"),
        (post("x" * 200_000), "413"),
    ],
)
async def test_what_is_no_request_or_too_much_is_refused(server, raw, data, status):
    await raw.send(data)
    head = await raw.head()
    assert head.startswith(f"http/1.1 {status}")
    assert json.loads(await raw.body(head))["error"]["message"]
    assert await raw.rest() == b""
    assert server.requests == []


async def test_who_sends_half_a_request_and_leaves_bothers_nobody(server, raw):
    await raw.send(post("hi")[:-10])
    raw.close()
    port = int(server.url.rpartition(":")[2])
    other = Raw(*await asyncio.open_connection("127.0.0.1", port))
    await other.send(post("hi", "connection: close"))
    assert b"echo: hi" in await other.rest()
    other.close()


async def test_who_sends_nothing_for_too_long_is_hung_up_on():
    async with ModelServer(bounds=Bounds(idle=0.01)) as server:
        port = int(server.url.rpartition(":")[2])
        raw = Raw(*await asyncio.open_connection("127.0.0.1", port))
        assert await raw.rest() == b""
        raw.close()


async def test_one_connection_too_many_is_hung_up_on():
    async with ModelServer(max_connections=1) as server:
        port = int(server.url.rpartition(":")[2])
        first = Raw(*await asyncio.open_connection("127.0.0.1", port))
        await first.send(post("hi"))
        assert said(await first.body(await first.head())) == "echo: hi"
        second = Raw(*await asyncio.open_connection("127.0.0.1", port))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await second.head()
        first.close()
        second.close()
