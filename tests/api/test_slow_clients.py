"""Clients of the feed that do not read, or hardly: bounded, cut off, and nobody else's problem."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.frames import Close

from agor.daemon.api.settings import ApiSettings
from tests.api.feeds import (
    WebSocket,
    followers,
    publish,
    small_socket,
    sse,
    stuck_sse,
    take,
    websocket,
)
from tests.api.serving import Served, serving
from tests.contract.waiting import soon, until

#: More than every buffer between the daemon and a client can hold.
MANY, LARGE = 400, 64 * 1024


@pytest.fixture
async def strict(tmp_path: Path) -> AsyncIterator[Served]:
    settings = ApiSettings(stall_timeout=0.5, farewell_timeout=5.0)
    async with serving(tmp_path, settings=settings) as one:
        yield one


def unsent(served: Served) -> int:
    """Bytes that the daemon holds for all of its connections."""
    assert served.server._server is not None
    connections: Any = served.server._server.server_state.connections
    return sum(each.transport.get_write_buffer_size() for each in connections)


async def read_to_its_end(follow: WebSocket) -> tuple[list[int], Close | None]:
    """Read all that comes; tells how the connection was closed."""
    sequences: list[int] = []
    while True:
        try:
            sequences.append((await follow.event())["sequence"])
        except ConnectionClosed as closed:
            return sequences, closed.rcvd


async def test_who_does_not_read_is_told_to_come_back(strict: Served) -> None:
    session_id = await strict.new_session()
    stuck_end = small_socket(strict)
    async with websocket(strict, session_id, sock=stuck_end, max_queue=1) as stuck:
        await until(lambda: followers(strict, "websocket") == 1)
        last = await publish(strict, session_id, MANY, LARGE)
        await until(lambda: strict.count("agor_feed_cut_off_total") == 1)
        sequences, closed = await read_to_its_end(stuck)
        seen = len(sequences)
        assert sequences == list(range(1, seen + 1))
        assert closed is not None
        assert closed.code == 1013
        assert closed.reason.endswith(f"come back with after={seen}")
        assert 0 < seen < last
    async with websocket(strict, session_id, after=seen) as again:
        events = await take(again, last)
    assert [event["sequence"] for event in events] == list(range(seen + 1, last + 1))


async def test_who_never_wakes_up_is_hung_up_on(tmp_path: Path) -> None:
    settings = ApiSettings(stall_timeout=0.2, farewell_timeout=0.2)
    async with serving(tmp_path, settings=settings) as served:
        session_id = await served.new_session()
        await publish(served, session_id, MANY, LARGE)
        assert served.server._server is not None
        state = served.server._server.server_state
        idle = len(state.connections)
        async with websocket(served, session_id, sock=small_socket(served), max_queue=1):
            await until(lambda: served.count("agor_feed_cut_off_total") == 1)
            await until(lambda: len(state.connections) == idle)
        async with stuck_sse(served, session_id):
            await until(lambda: served.count("agor_feed_cut_off_total") == 2)
            await until(lambda: len(state.connections) == idle)
            await until(lambda: not state.tasks)


async def test_a_stuck_client_changes_nothing_for_the_others(strict: Served) -> None:
    session_id = await strict.new_session()
    stuck_end = small_socket(strict)
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, unsent(strict))
            await asyncio.sleep(0)

    async with (
        websocket(strict, session_id, sock=stuck_end, max_queue=1) as stuck,
        websocket(strict, session_id) as one,
        sse(strict, session_id) as other,
        stuck_sse(strict, session_id),
    ):
        await until(lambda: followers(strict, "websocket") + followers(strict, "sse") == 4)
        watching = asyncio.create_task(watch())
        both = asyncio.gather(take(one, MANY + 1), take(other, MANY + 1))
        last = await soon(publish(strict, session_id, MANY, LARGE))
        taken = await both
        assert [event["sequence"] for event in taken[0]] == list(range(1, last + 1))
        assert taken[0] == taken[1]
        await until(lambda: strict.count("agor_feed_cut_off_total") == 2)
        watching.cancel()
        stuck.leave()
    # Of 26 MB that were told, the daemon held no more than a page or two for each.
    assert most < 4 * 1024 * 1024


async def test_one_stuck_client_among_a_hundred_changes_nothing_for_them(strict: Served) -> None:
    session_id, many = await strict.new_session(), 100
    async with contextlib.AsyncExitStack() as stack:
        stuck = await stack.enter_async_context(
            websocket(strict, session_id, sock=small_socket(strict), max_queue=1)
        )
        others = [await stack.enter_async_context(websocket(strict, session_id)) for _ in range(99)]
        await until(lambda: followers(strict, "websocket") == 100)
        reading = asyncio.gather(*(take(other, many + 1) for other in others))
        last = await soon(publish(strict, session_id, many, LARGE))
        for events in await reading:
            assert [event["sequence"] for event in events] == list(range(1, last + 1))
        await until(lambda: strict.count("agor_feed_cut_off_total") == 1)
        sequences, closed = await read_to_its_end(stuck)
        assert closed is not None
        assert closed.reason.endswith(f"come back with after={len(sequences)}")
        assert followers(strict, "websocket") == 99


async def test_who_reads_slowly_gets_all_of_it(strict: Served) -> None:
    session_id, many = await strict.new_session(), 100
    async with websocket(strict, session_id, sock=small_socket(strict), max_queue=1) as slow:
        # Read from the beginning on: who reads nothing for so long as all of it takes is cut off.
        publishing = asyncio.create_task(publish(strict, session_id, many, LARGE))
        sequences: list[int] = []
        for _ in range(many + 1):
            sequences.append((await slow.event())["sequence"])
            await asyncio.sleep(0.002)
        assert sequences == list(range(1, await soon(publishing) + 1))
    assert strict.count("agor_feed_cut_off_total") == 0


async def test_pings_of_one_who_does_not_read_pile_up_nowhere(strict: Served) -> None:
    session_id = await strict.new_session()
    await publish(strict, session_id, MANY, LARGE)
    async with websocket(strict, session_id, sock=small_socket(strict), max_queue=1) as stuck:
        await until(lambda: unsent(strict) > 0)
        before = unsent(strict)
        for _ in range(1000):
            # A masked ping with 125 bytes, as a client sends it.
            stuck.connection.transport.write(b"\x89\xfd\x00\x00\x00\x00" + b"p" * 125)
        await until(lambda: stuck.connection.transport.get_write_buffer_size() == 0)
        await until(lambda: strict.count("agor_feed_cut_off_total") == 1)
        assert unsent(strict) <= before + 200
        stuck.leave()


async def test_a_ping_in_the_crush_is_answered_later(served: Served) -> None:
    session_id = await served.new_session()
    last = await publish(served, session_id, MANY, LARGE)
    async with websocket(served, session_id, sock=small_socket(served), max_queue=1) as slow:
        await until(lambda: unsent(served) > 0)
        pongs = [await slow.connection.ping() for _ in range(10)]
        await until(lambda: slow.connection.transport.get_write_buffer_size() == 0)
        await take(slow, last)
        await soon(pongs[-1])


async def test_the_daemon_ends_in_time_whoever_does_not_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session_id = await served.new_session()
        await publish(served, session_id, MANY, LARGE)
        async with (
            stuck_sse(served, session_id),
            websocket(served, session_id, sock=small_socket(served), max_queue=1) as other,
        ):
            await until(lambda: followers(served, "websocket") + followers(served, "sse") == 2)
            await soon(served.server.stop(0.5))
            assert served.server._server is None
            other.leave()
