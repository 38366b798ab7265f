"""The client's feed, over cuts, kills, restarts and slow reading, and with fake daemons."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from agor.client import Client
from agor.errors import (
    InvalidResult,
    NotFound,
)  # fmt: skip
from agor.protocol.api import FeedEvent
from tests.integration.daemon.client_steps import PATIENCE, begin, is_whole, read, say, to_the_end
from tests.integration.daemon.daemon_process import DaemonProcess, running_daemon
from tests.integration.daemon.fake_daemon import feeding
from tests.integration.daemon.proxy import proxy_to


@pytest.fixture(scope="module")
def shared() -> Iterator[DaemonProcess]:
    """A daemon that tests leave as they found it."""
    with running_daemon() as running:
        yield running


@pytest.fixture
def own() -> Iterator[DaemonProcess]:
    """A daemon for one test, which may kill it."""
    with running_daemon({"feed.stall_timeout_ms": 300}) as running:
        yield running


@pytest.fixture
async def client(shared: DaemonProcess) -> AsyncIterator[Client]:
    async with shared.client() as connected:
        yield connected


async def test_a_feed_goes_on_over_kills_and_restarts(own: DaemonProcess) -> None:
    words = [step for number in range(100) for step in ({"text": f"{number}"}, {"delay_ms": 15})]
    async with own.client() as client:
        session = await begin(client)
        task = await say(client, session, *words)
        following = asyncio.create_task(to_the_end(client.follow(session), task))
        waiting = asyncio.create_task(client.wait_task(task, timeout=PATIENCE))
        async with client.follow(session) as feed:
            await read(feed, 30)
            await asyncio.to_thread(own.kill)
            await asyncio.to_thread(own.start)
            await read(feed, 30)
            await asyncio.to_thread(own.restart)
        events = await following
        assert (await waiting).status == "completed"
    assert is_whole(events)
    texts = [event.data["text"] for event in events if event.type == "block_delta"]
    assert texts[1:] == [f"{number}" for number in range(100)]


async def test_a_feed_goes_on_over_cut_wires(shared: DaemonProcess, client: Client) -> None:
    session = await begin(client)
    async with proxy_to(shared.port) as proxy, Client(proxy.url, shared.token) as cut_off:
        task = await say(client, session, {"flood": {"events": 3000, "bytes": 10}})
        feed = cut_off.follow(session)
        events: list[FeedEvent] = []
        async with asyncio.timeout(PATIENCE):
            while not events or not (events[-1].type == "task" and events[-1].data["ended_at"]):
                events.append(await anext(feed))
                if len(events) % 500 == 0:
                    proxy.cut()
        # What was on its way when the wire was cut may come all the same.
        assert proxy.count > 1
    assert events[-1].task_id == task
    assert is_whole(events)


async def test_who_does_not_read_gets_no_more_than_fits_and_loses_nothing(
    own: DaemonProcess,
) -> None:
    async with (
        own.client() as client,
        proxy_to(own.port) as proxy,
        Client(proxy.url, own.token) as slow,
    ):
        session = await begin(client)
        feed = slow.follow(session)
        await anext(feed)
        task = await say(client, session, {"flood": {"events": 15_000, "bytes": 3000}})
        await client.wait_task(task, timeout=PATIENCE)
        async with asyncio.timeout(PATIENCE):
            await proxy.congested.wait()
        assert proxy.forwarded < 20_000_000
        rest = await to_the_end(feed, task)
        assert [event.sequence for event in rest] == list(range(2, len(rest) + 2))
        assert sum(len(event.data["text"]) for event in rest if event.type == "block_delta") > 4.5e7


async def test_a_reader_that_is_sent_away_for_being_slow_comes_back(own: DaemonProcess) -> None:
    async with own.client() as client:
        session = await begin(client)
        feed = client.follow(session)
        await anext(feed)
        task = await say(client, session, {"flood": {"events": 15_000, "bytes": 3000}})
        async with asyncio.timeout(PATIENCE), httpx.AsyncClient() as web:
            while "agor_feed_cut_off_total 0.0" in (figures := await metrics(web, own)):
                assert "agor_feed_cut_off_total" in figures
        rest = await to_the_end(feed, task)
        assert [event.sequence for event in rest] == list(range(2, len(rest) + 2))


async def metrics(web: httpx.AsyncClient, daemon: DaemonProcess) -> str:
    headers = {"Authorization": f"Bearer {daemon.token}"}
    return (await web.get(f"{daemon.url}/metrics", headers=headers)).text


@pytest.mark.parametrize("code", [0, 1000, 1001, 1011, 1012, 1013])
async def test_every_close_but_one_is_come_back_from(code: int) -> None:
    async with feeding([1, 2, code], [3, code], [4, code]) as (fake, client):
        assert await read(client.follow("s"), 4) == [1, 2, 3, 4]
    assert fake.cursors == [0, 2, 3]


async def test_a_session_that_is_gone_is_not_come_back_to() -> None:
    async with feeding([1, 4404]) as (_, client):
        feed = client.follow("s")
        assert await read(feed, 1) == [1]
        with pytest.raises(NotFound):
            await read(feed, 1)


async def test_a_feed_waits_for_a_daemon_that_cannot_yet() -> None:
    busy = (503, "store_unavailable", "0")
    async with feeding(busy, busy, [1, 0]) as (fake, client):
        assert await read(client.follow("s"), 1) == [1]
    assert fake.cursors == [0, 0, 0]


@pytest.mark.parametrize("sequences", [[1, 2, 4], [1, 2, 2], [1, 2, 1], [1, 2, 0], [1, 2, -3]])
async def test_a_gap_or_a_duplicate_is_an_error_and_never_handed_on(sequences: list[int]) -> None:
    async with feeding([*sequences, 1000], [3, 1000]) as (fake, client):
        feed = client.follow("s")
        assert await read(feed, 2) == [1, 2]
        with pytest.raises(InvalidResult, match=f"after event 2 came event {sequences[2]}"):
            await read(feed, 1)
        # Whoever goes on gets what should have come.
        assert await read(feed, 1) == [3]
    assert fake.cursors == [0, 2]


async def test_a_wait_that_is_given_up_loses_no_event(client: Client) -> None:
    session = await begin(client)
    feed = client.follow(session)
    assert await read(feed, 1) == [1]
    for _ in range(3):
        waiting = asyncio.create_task(anext(feed))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
    await client.change_session(session, title="x")
    assert await read(feed, 1) == [2]


async def test_a_feed_that_is_closed_ends_for_whoever_waits(client: Client) -> None:
    feed = client.follow(await begin(client))
    assert await read(feed, 1) == [1]
    waiting = asyncio.create_task(read(feed, 1))
    await asyncio.sleep(0)
    await feed.close()
    with pytest.raises(StopAsyncIteration):
        await anext(feed)
    with pytest.raises((StopAsyncIteration, RuntimeError)):
        await waiting


async def test_a_feed_that_is_left_is_closed(shared: DaemonProcess) -> None:
    async with proxy_to(shared.port) as proxy, Client(proxy.url, shared.token) as leaving:
        async with shared.client() as client:
            session = await begin(client)
        async for _ in leaving.follow(session):
            break
        gc.collect()
        async with asyncio.timeout(PATIENCE):
            await proxy.idle.wait()


async def test_closing_the_client_closes_its_feeds(shared: DaemonProcess) -> None:
    async with proxy_to(shared.port) as proxy:
        async with Client(proxy.url, shared.token) as leaving:
            feed = leaving.follow(await begin(leaving))
            await anext(feed)
        async with asyncio.timeout(PATIENCE):
            await proxy.idle.wait()
