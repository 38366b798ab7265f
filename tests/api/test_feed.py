"""The feed, over both transports: all of it, once, in order, from any cursor, live."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import structlog
from structlog.testing import capture_logs
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

from agor.daemon.api.settings import ApiSettings
from agor.protocol.api import FeedEvent
from tests.api.feeds import Follow, SseEnded, followers, publish, sse, take, websocket
from tests.api.raw import RawConnection, spelled
from tests.api.serving import Served, serving
from tests.contract.waiting import soon, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

Opening = Callable[..., AbstractAsyncContextManager[Any]]

BOTH = pytest.mark.parametrize(
    "opening", [pytest.param(sse, id="sse"), pytest.param(websocket, id="websocket")]
)


def transport_of(opening: Opening) -> str:
    return "sse" if opening is sse else "websocket"


# ── content ──────────────────────────────────────────────────────────────────────────────────


@BOTH
async def test_a_feed_is_replayed_from_its_beginning(shared: Served, opening: Opening) -> None:
    session_id = await shared.new_session()
    last = await publish(shared, session_id, 50)
    async with opening(shared, session_id) as follow:
        events = await take(follow, last)
    assert [event["sequence"] for event in events] == list(range(1, last + 1))
    first = msgspec.convert(events[0], FeedEvent)
    assert first.type == "session"
    assert first.data["session_id"] == session_id


@BOTH
async def test_what_happens_later_is_told_live(shared: Served, opening: Opening) -> None:
    session_id = await shared.new_session()
    async with opening(shared, session_id, after=1) as follow:
        await until(lambda: followers(shared, transport_of(opening)) == 1)
        for title in ("one", "two", "three"):
            await shared.ask.patch(f"/sessions/{session_id}", json={"title": title})
            event = await follow.event()
            assert event["data"]["title"] == title


@BOTH
async def test_between_replay_and_live_there_is_no_gap_and_no_duplicate(
    shared: Served, opening: Opening
) -> None:
    session_id = await shared.new_session()
    await publish(shared, session_id, 300)
    publishing = asyncio.create_task(publish(shared, session_id, 700, 200))

    async def collect(after: int) -> list[int]:
        async with opening(shared, session_id, after=after) as follow:
            return [event["sequence"] for event in await take(follow, 1001)]

    collected = await asyncio.gather(*(collect(after) for after in range(0, 300, 13)))
    assert await publishing == 1001
    for after, sequences in zip(range(0, 300, 13), collected, strict=True):
        assert sequences == list(range(after + 1, 1002))


@BOTH
async def test_who_was_cut_off_goes_on_where_they_were(shared: Served, opening: Opening) -> None:
    session_id = await shared.new_session()
    publishing = asyncio.create_task(publish(shared, session_id, 500))
    seen: list[int] = []
    while not seen or seen[-1] < 501:
        after = seen[-1] if seen else 0
        async with opening(shared, session_id, after=after) as follow:
            for _ in range(37):
                seen.append((await follow.event())["sequence"])
                if seen[-1] == 501:
                    break
            follow.leave()
    await publishing
    assert seen == list(range(1, 502))


@BOTH
async def test_a_hundred_clients_get_the_same(shared: Served, opening: Opening) -> None:
    session_id = await shared.new_session()
    async with contextlib.AsyncExitStack() as stack:
        all_of_them: list[Follow] = [
            await stack.enter_async_context(opening(shared, session_id)) for _ in range(100)
        ]
        last = await publish(shared, session_id, 100)
        taken = await asyncio.gather(*(take(follow, last) for follow in all_of_them))
    assert all(events == taken[0] for events in taken)
    assert len(taken[0]) == last


@BOTH
async def test_a_large_event_comes_whole(shared: Served, opening: Opening) -> None:
    session_id = await shared.new_session()
    for size in (100, 126, 65_400, 65_536, 3_000_000):
        last = await publish(shared, session_id, 1, size)
        async with opening(shared, session_id, after=last - 1) as follow:
            assert len((await follow.event())["data"]["text"]) == size


@BOTH
async def test_a_task_is_told_from_its_acceptance_to_its_end(
    shared: Served, opening: Opening
) -> None:
    session_id = await shared.new_session()
    async with opening(shared, session_id) as follow:
        await shared.prompt(session_id, "hello there")
        statuses: list[str] = []
        text = ""
        while not statuses or statuses[-1] != "completed":
            event = await follow.event()
            if event["type"] == "task":
                statuses.append(event["data"]["status"])
            if event["type"] == "block_delta" and "prompt" not in event["data"]["block_id"]:
                text += event["data"]["text"]
    assert statuses[0] == "queued"
    assert text == "hello there"


async def test_both_transports_tell_the_same(shared: Served) -> None:
    session_id = await shared.new_session()
    last = await publish(shared, session_id, 20)
    async with sse(shared, session_id) as one, websocket(shared, session_id) as other:
        assert await take(one, last) == await take(other, last)


# ── cursors ──────────────────────────────────────────────────────────────────────────────────


@BOTH
@pytest.mark.parametrize("query", ["after=-1", "after=x", "after=1.5", "after=", "since=1",
                                   "after=99999999999999999999"])  # fmt: skip
async def test_a_cursor_that_is_none_is_refused(
    shared: Served, opening: Opening, query: str
) -> None:
    session_id = await shared.new_session()
    headers = {}
    if opening is websocket:
        headers = {
            "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
            "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        }  # fmt: skip
    async with await RawConnection.open(shared.port) as connection:
        address = f"/sessions/{session_id}/events?{query}"
        await connection.send(spelled("GET", address, shared.token, **headers))
        answer = await connection.answer()
    assert answer.status == 422
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_cursor_beyond_the_end_is_of_another_feed(shared: Served) -> None:
    session_id = await shared.new_session()
    answer = await shared.ask.get(f"/sessions/{session_id}/events?after=1000")
    assert answer.status_code == 409


async def test_the_header_of_a_browser_counts_more_than_its_address(shared: Served) -> None:
    session_id = await shared.new_session()
    last = await publish(shared, session_id, 10)
    async with sse(shared, session_id, after=1, last_event_id="7") as follow:
        assert [event["sequence"] for event in await take(follow, last)] == [8, 9, 10, 11]
    header = {"last-event-id": "9"}
    async with websocket(shared, session_id, after=1, additional_headers=header) as follow:
        assert [event["sequence"] for event in await take(follow, last)] == [10, 11]


@pytest.mark.parametrize("value", ["", "x", "-1", "1.0", "1" * 19])
async def test_such_a_header_has_a_form(shared: Served, value: str) -> None:
    session_id = await shared.new_session()
    async with await RawConnection.open(shared.port) as connection:
        address = f"/sessions/{session_id}/events"
        await connection.send(spelled("GET", address, shared.token, last_event_id=value))
        answer = await connection.answer()
    assert answer.status == 422
    assert "Last-Event-ID" in answer.json["detail"]


# ── form ─────────────────────────────────────────────────────────────────────────────────────


async def test_server_sent_events_have_their_form(shared: Served) -> None:
    session_id = await shared.new_session()
    last = await publish(shared, session_id, 3)
    async with sse(shared, session_id) as follow:
        await take(follow, last)
        assert follow.ids == [1, 2, 3, 4]
        assert follow.retry == 1000
    async with shared.ask.stream("GET", f"/sessions/{session_id}/events") as response:
        assert response.headers["content-type"] == "text/event-stream"
        assert "no-cache" in response.headers["cache-control"]
        assert response.headers["x-accel-buffering"] == "no"
        assert "content-length" not in response.headers


async def test_a_websocket_is_not_compressed(shared: Served) -> None:
    session_id = await shared.new_session()
    async with websocket(shared, session_id, compression="deflate") as follow:
        assert follow.connection.protocol.extensions == []
        assert (await follow.event())["sequence"] == 1


# ── ends ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_deleted_session_ends_its_feed(shared: Served) -> None:
    session_id = await shared.new_session()
    async with sse(shared, session_id) as one, websocket(shared, session_id) as other:
        await one.event()
        await other.event()
        assert (await shared.ask.delete(f"/sessions/{session_id}")).status_code == 204
        with pytest.raises(SseEnded):
            await one.event()
        with pytest.raises(ConnectionClosed) as closed:
            await other.event()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4404


async def test_at_the_end_of_the_daemon_everybody_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session_id = await served.new_session()
        last = await publish(served, session_id, 5)
        async with sse(served, session_id) as one, websocket(served, session_id) as other:
            await take(one, last)
            await take(other, last)
            stopping = asyncio.create_task(served.server.stop(5.0))
            with pytest.raises(SseEnded):
                await one.event()
            with pytest.raises(ConnectionClosed) as closed:
                await other.event()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012
            await soon(stopping)


@BOTH
async def test_who_leaves_is_forgotten(shared: Served, opening: Opening) -> None:
    session_id = await shared.new_session()
    live = await shared.daemon.lives.get(session_id)
    for _ in range(3):
        async with opening(shared, session_id) as follow:
            await follow.event()
            await until(lambda: len(live.channel.followers) == 1)
            follow.leave()
            await until(lambda: not live.channel.followers)
    await until(lambda: followers(shared, transport_of(opening)) == 0)


async def test_nothing_is_to_be_said_to_a_feed(shared: Served) -> None:
    session_id = await shared.new_session()
    for message in ("hello", b"hello"):
        async with websocket(shared, session_id) as follow:
            await follow.event()
            await follow.connection.send(message)
            with pytest.raises(ConnectionClosed) as closed:
                await follow.event()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1003


async def test_a_long_message_is_not_even_read(shared: Served) -> None:
    session_id = await shared.new_session()
    async with websocket(shared, session_id) as follow:
        await follow.event()
        with contextlib.suppress(ConnectionClosed):
            await follow.connection.send("x" * 1_000_000)
        with pytest.raises(ConnectionClosed) as closed:
            await follow.event()
    assert closed.value.rcvd is None or closed.value.rcvd.code == 1009


class SlowFeed:
    """A feed that is opened when the test says so."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    async def open(self, *asked: Any) -> Any:
        self.begun.set()
        await self.go.wait()
        return await self._inner.open(*asked)


@BOTH
async def test_who_leaves_before_it_begins_is_no_fault(tmp_path: Path, opening: Opening) -> None:
    made: list[SlowFeed] = []

    def slow(services: Any) -> dict[str, Any]:
        made.append(SlowFeed(services.feed))
        return {"feed": made[0]}

    structlog.reset_defaults()
    async with serving(tmp_path, change=slow) as served:
        session_id = await served.new_session()
        assert served.server._server is not None
        state = served.server._server.server_state

        async def follow() -> None:
            async with opening(served, session_id):
                pass

        asking = asyncio.create_task(follow())
        await soon(made[0].begun.wait())
        with capture_logs() as logged:
            idle = len(state.connections) - 1
            asking.cancel()
            await until(lambda: len(state.connections) == idle)
            made[0].go.set()
            await until(lambda: not state.tasks)
        assert [line for line in logged if line["log_level"] == "error"] == []


async def test_a_client_may_say_good_bye(shared: Served) -> None:
    session_id = await shared.new_session()
    async with websocket(shared, session_id) as follow:
        await follow.event()
        await soon(follow.connection.close(1000, "done"))
        with pytest.raises(ConnectionClosedOK):
            await follow.event()


# ── signs of life ────────────────────────────────────────────────────────────────────────────


@pytest_asyncio.fixture(loop_scope="module")
async def lively(tmp_path: Path) -> AsyncIterator[Served]:
    settings = ApiSettings(heartbeat=0.02, ping_interval=0.02, ping_timeout=1, farewell_timeout=0.2)
    async with serving(tmp_path, settings=settings) as one:
        yield one


async def test_a_quiet_feed_gives_signs_of_life(lively: Served) -> None:
    session_id = await lively.new_session()
    async with sse(lively, session_id) as follow:
        waiting = asyncio.create_task(take(follow, 2))
        await until(lambda: follow.comments >= 3)
        await publish(lively, session_id, 1)
        assert [event["sequence"] for event in await waiting] == [1, 2]


async def test_a_websocket_is_pinged_and_may_ping(lively: Served) -> None:
    session_id = await lively.new_session()
    async with websocket(lively, session_id) as follow:
        await follow.event()
        for _ in range(5):
            await soon(await follow.connection.ping())
        await until(lambda: lively.count("agor_feed_followers", transport="websocket") == 1)


async def test_who_does_not_answer_pings_is_given_up(lively: Served) -> None:
    session_id = await lively.new_session()
    headers = {
        "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    async with await RawConnection.open(lively.port) as connection:
        address = f"/sessions/{session_id}/events"
        await connection.send(spelled("GET", address, lively.token, **headers))
        assert (await connection.answer()).status == 101
        frames = await connection.ended()
    # A close frame: 1011, and why.
    assert (1011).to_bytes(2, "big") + b"no answer to a ping" in frames
    await until(lambda: followers(lively, "websocket") == 0)


async def test_every_frame_is_the_event_as_it_is_stored(shared: Served) -> None:
    session_id = await shared.new_session()
    await publish(shared, session_id, 3)
    live = await shared.daemon.lives.get(session_id)
    chunk = await live.channel.read(0)
    assert chunk is not None
    async with websocket(shared, session_id) as follow:
        for body in chunk.bodies:
            assert await follow.event() == json.loads(body)
