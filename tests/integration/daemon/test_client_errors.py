"""The client when something is wrong: what it says, what it tries again, what it never shows."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator

import pytest

from agor.client import Client
from agor.errors import (
    AgorError,
    BadInput,
    Conflict,
    Disconnected,
    InvalidResult,
    NotFound,
    RequestRefused,
    StoreUnavailable,
    Unauthenticated,
    Unprocessable,
)  # fmt: skip
from tests.integration.daemon.client_steps import begin, read
from tests.integration.daemon.daemon_process import DaemonProcess, running_daemon
from tests.integration.daemon.fake_daemon import TOKEN, answer, answering, problem
from tests.integration.daemon.proxy import proxy_to


@pytest.fixture(scope="module")
def shared() -> Iterator[DaemonProcess]:
    """A daemon that tests leave as they found it."""
    with running_daemon() as running:
        yield running


@pytest.fixture
async def client(shared: DaemonProcess) -> AsyncIterator[Client]:
    async with shared.client() as connected:
        yield connected


@pytest.mark.parametrize("name", ["", "..", "a/b", "x" * 65, "a?b", "ä"])
async def test_what_cannot_be_an_id_is_not_found_and_not_asked_for(
    client: Client, name: str
) -> None:
    with pytest.raises(NotFound):
        await client.session(name)
    with pytest.raises(NotFound):
        client.follow(name)


async def test_a_field_that_is_wrong_is_named(client: Client) -> None:
    with pytest.raises(Unprocessable, match="workspace"):
        await client.create_session("scripted", "not/absolute")


async def test_another_token_is_refused_for_calls_and_feeds(
    shared: DaemonProcess, client: Client
) -> None:
    session = await begin(client)
    async with Client(shared.url, TOKEN) as stranger:
        with pytest.raises(Unauthenticated) as refused:
            await stranger.session(session)
        assert refused.value.hint
        with pytest.raises(Unauthenticated):
            await anext(stranger.follow(session))


async def test_a_cursor_behind_the_end_and_a_session_that_is_not_there_are_refused(
    client: Client,
) -> None:
    with pytest.raises(Conflict, match="after=1000"):
        await anext(client.follow(await begin(client), after=1000))
    with pytest.raises(NotFound):
        await anext(client.follow("no-such-session"))


async def test_an_unknown_code_is_a_refusal_that_keeps_its_words() -> None:
    async with answering(problem(418, "teapot")) as (_, client):
        with pytest.raises(RequestRefused) as refused:
            await client.health()
    error = refused.value
    assert type(error) is RequestRefused
    assert (error.code, error.message, error.hint) == ("teapot", "the detail", "the hint")


@pytest.mark.parametrize("body", [b"<html>", b"", b'{"code": 5}', b"[" * 10_000])
async def test_an_answer_that_no_daemon_gives_says_so(body: bytes) -> None:
    async with answering(answer(502, body), answer(200, body)) as (_, client):
        with pytest.raises(RequestRefused, match="502"):
            await client.health()
        with pytest.raises(InvalidResult, match="GET /health"):
            await client.health()


async def test_no_token_is_shown_anywhere(
    shared: DaemonProcess, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shown = []
    token = shared.token
    async with shared.client() as client:
        shown.append(repr(client))
        session = await begin(client)
        async with client.follow(session) as feed:
            shown.append(repr(feed))
            await anext(feed)
    async with answering(b"", b"", attempts=1) as (_, client):
        for call in (client.health(), client.delete_session("x")):
            with pytest.raises(AgorError) as failed:
                await call
            shown += [repr(failed.value), repr(failed.value.__cause__), failed.value.hint or ""]
    for unusable in ("ftp://x", "http://", f"http://x?{token}", f"http://{token}@x", "http://x:y"):
        with pytest.raises(BadInput) as refused:
            Client(unusable, token)
        shown.append(f"{refused.value} {refused.value.hint}")
    with pytest.raises(BadInput) as refused:
        Client("http://x", f"{token}\r\nX: y")
    shown.append(f"{refused.value} {refused.value.hint}")
    shown += [record.getMessage() for record in caplog.records]
    assert len(shown) > 10
    assert not [text for text in shown if token in text or TOKEN in text]


# ── again ─────────────────────────────────────────────────────────────────────────────────────────

HEALTH = {"status": "ok", "version": "1", "uptime_ms": 1, "checks": []}
ACCEPTED = {"task_id": "t", "session_id": "s", "status": "queued", "queue_position": None}


async def test_what_only_reads_is_asked_again_after_a_cut_and_after_503() -> None:
    busy = problem(503, "store_unavailable", retry_after="0")
    async with answering(b"", busy, answer(200, HEALTH)) as (fake, client):
        assert (await client.health()).status == "ok"
    assert len(fake.asked) == 3


async def test_a_prompt_is_sent_again_under_its_key() -> None:
    under_way = problem(409, "conflict", retry_after="0")
    async with answering(b"", under_way, answer(202, ACCEPTED), answer(202, ACCEPTED)) as (
        fake,
        client,
    ):
        await client.prompt("s", "hello")
        await client.prompt("s", "hello")
    first, second, third, other = fake.header("idempotency-key")
    assert first == second == third != other


async def test_what_would_do_harm_twice_is_sent_once() -> None:
    async with answering(b"", answer(204), answer(204)) as (fake, client):
        with pytest.raises(Disconnected):
            await client.delete_session("s")
        assert len(fake.asked) == 1


async def test_a_refusal_for_good_is_not_asked_again() -> None:
    async with answering(problem(503, "pool_error"), answer(200, HEALTH)) as (fake, client):
        with pytest.raises(AgorError, match="the detail"):
            await client.health()
    assert len(fake.asked) == 1


async def test_attempts_are_bounded() -> None:
    busy = problem(503, "store_unavailable", retry_after="0")
    async with answering(*[busy] * 4, attempts=3) as (fake, client):
        with pytest.raises(StoreUnavailable):
            await client.health()
    assert len(fake.asked) == 3


async def test_a_prompt_whose_answer_was_lost_is_there_once(
    shared: DaemonProcess, client: Client
) -> None:
    session = await begin(client)
    async with proxy_to(shared.port) as proxy, Client(proxy.url, shared.token) as cut_off:
        proxy.swallow = 2
        accepted = await cut_off.prompt(session, "hello")
        assert proxy.count == 3
    assert [task.task_id async for task in client.tasks(session)] == [accepted.task_id]


async def test_a_key_of_ones_own_makes_it_the_same_prompt(client: Client) -> None:
    session = await begin(client)
    first = await client.prompt(session, "hello", key="mine")
    assert await client.prompt(session, "hello", key="mine") == first
    with pytest.raises(Unprocessable):
        await client.prompt(session, "something else", key="mine")


async def test_no_proxy_of_the_environment_is_shown_the_token(
    shared: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with shared.client() as client:
        assert await read(client.follow(await begin(client)), 1) == [1]
