"""The model server over a real socket: streams, faults, what it remembers, where it listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from agor.errors import BadInput, BadScript, SocketInUse
from agor.testing.model import ModelServer, Request
from agor.testing.model.records import Records, redact
from tests.model.asking import (
    CHAT,
    GEMINI_STREAM,
    MESSAGES,
    RESPONSES,
    body_of,
    question,
    scripted,
)

KEY = "sk-ant-0123456789abcd"


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def client(server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        yield client


@pytest.mark.parametrize("target", [MESSAGES, RESPONSES, CHAT, GEMINI_STREAM])
async def test_a_stream_arrives_as_it_is_said(client, target):
    script = scripted([{"text": "one two"}])
    async with client.stream("POST", target, json=body_of(target, script, stream=True)) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line async for line in answer.aiter_lines() if line.startswith("data: ")]
    assert "one " in "".join(lines)
    assert len(lines) > 2


async def test_what_was_asked_is_remembered_without_keys(server, client):
    headers = {"x-api-key": KEY, "authorization": f"Bearer {KEY}"}
    body = body_of(MESSAGES, "hi", stream=False)
    await client.post(f"{MESSAGES}?beta=true&key={KEY}", json=body, headers=headers)
    request = await server.wait_for(1, lambda request: request.outcome is not None)
    assert (request.number, request.method, request.path) == (1, "POST", MESSAGES)
    assert request.target == f"{MESSAGES}?beta=true&key=…abcd"
    assert request.headers["x-api-key"] == "…abcd"
    assert request.headers["authorization"] == "Bearer …abcd"
    assert request.json == body
    assert (request.status, request.outcome) == (200, "answered")
    assert KEY not in repr(server.requests)


async def test_a_test_can_wait_for_the_nth_request_of_a_kind(server, client):
    waiting = asyncio.create_task(server.wait_for(2, lambda each: each.path == CHAT))
    for target in (CHAT, MESSAGES, CHAT):
        assert not waiting.done()
        await client.post(target, json=body_of(target, "hi", stream=False))
    assert (await waiting).number == 3
    with pytest.raises(TimeoutError):
        await server.wait_for(4, timeout=0)


async def test_who_waits_is_told_of_each_request_as_it_comes():
    told: list[Request] = []
    async with ModelServer(on_request=told.append) as server, httpx.AsyncClient() as client:
        await client.get(server.url)
    assert [request.method for request in told] == ["GET"]


async def test_a_cut_stream_breaks_off_and_the_next_request_is_served(server, client):
    script = scripted([{"text": "one"}, {"cut": True, "times": 1}, {"text": " two"}])
    body = body_of(CHAT, script, stream=True)
    got = bytearray()

    async def read() -> None:
        async with client.stream("POST", CHAT, json=body) as answer:
            async for data in answer.aiter_raw():
                got.extend(data)

    with pytest.raises(httpx.RemoteProtocolError):
        await read()
    assert b"one" in got
    assert not got.endswith(b"\n")
    await server.wait_for(1, lambda request: request.outcome == "cut")
    assert (await client.post(CHAT, json=body)).text.endswith("data: [DONE]\n\n")


async def test_a_cut_document_is_shorter_than_was_said(client):
    script = scripted([{"text": "one"}, {"cut": True}])
    with pytest.raises(httpx.RemoteProtocolError):
        await client.post(CHAT, json=body_of(CHAT, script, stream=False))


@pytest.mark.parametrize("steps", [[{"stall": True}], [{"text": "one"}, {"stall": True}]])
async def test_a_stalled_stream_has_a_head_and_lasts_until_the_client_leaves(server, client, steps):
    body = body_of(MESSAGES, scripted(steps), stream=True)
    async with client.stream("POST", MESSAGES, json=body) as answer:
        assert answer.status_code == 200
        assert (await server.wait_for(1)).outcome is None
    await server.wait_for(1, lambda request: request.outcome == "abandoned")


async def test_a_stalled_answer_ends_with_the_server():
    async with httpx.AsyncClient(timeout=60) as client:
        async with ModelServer() as server:
            body = body_of(MESSAGES, scripted([{"stall": True}]), stream=False)
            asking = asyncio.create_task(client.post(server.url + MESSAGES, json=body))
            await server.wait_for(1)
        with pytest.raises(httpx.HTTPError):
            await asking


async def test_many_ask_at_once_and_each_gets_its_own(client):
    async def ask(number: int) -> str:
        body = body_of(CHAT, scripted([{"pace_ms": 1}, {"text": f"I am {number}."}]), stream=False)
        answer = await client.post(CHAT, json=body)
        said: str = answer.json()["choices"][0]["message"]["content"]
        return said

    said = await asyncio.gather(*map(ask, range(50)))
    assert said == [f"I am {number}." for number in range(50)]


async def test_keys_and_a_script_of_its_own():
    own = {"model_script": [{"text": "mine"}]}
    async with ModelServer(keys=[KEY], script=own) as server, httpx.AsyncClient() as client:
        body = body_of(CHAT, "hi", stream=False)
        refused = await client.post(server.url + CHAT, json=body)
        headers = {"authorization": f"Bearer {KEY}"}
        answer = await client.post(server.url + CHAT, json=body, headers=headers)
    assert refused.status_code == 401
    assert answer.json()["choices"][0]["message"]["content"] == "mine"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_it_listens_on_loopback_only(host):
    with pytest.raises(BadInput):
        ModelServer(host=host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
async def test_it_listens_on_any_loopback_address(host):
    async with ModelServer(host=host) as server, httpx.AsyncClient() as client:
        assert (await client.get(server.url)).status_code == 200


async def test_a_port_that_is_taken_is_told_in_words(server):
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(SocketInUse, match=str(port)):
        async with ModelServer(port=port):
            pytest.fail("it serves")


def test_a_bad_script_of_its_own_is_refused_before_it_serves():
    with pytest.raises(BadScript):
        ModelServer(script=[{"txt": "a"}])


async def test_what_is_remembered_is_bounded():
    records = Records(most=3, most_bytes=100)
    for number in range(5):
        await records.add(question(CHAT, number), 0.0)
    assert [request.number for request in records.all] == [3, 4, 5]
    await records.add(question(CHAT, "x" * 200), 0.0)
    assert [len(request.body) for request in records.all] == [len(json.dumps("x" * 200))]


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        (KEY, "…abcd"),
        (f"bearer {KEY}", "bearer …abcd"),
        ("short", "…"),
        ("Basic dXNlcjpwYXNzd29yZA==", "…"),
        ("a=1; b=a-long-secret-cookie", "…"),
    ],
)
def test_of_a_key_its_end_is_shown_if_that_gives_nothing_away(secret, shown):
    assert redact(secret) == shown
