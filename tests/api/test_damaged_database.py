"""A page of the database is damaged: who needs it is told at once, and everybody else is served."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from agor.client import Client
from agor.errors import StoreDamaged
from tests.api.feeds import publish
from tests.api.serving import Served, serving
from tests.contract.waiting import soon

_PAGE = 4096
#: The first byte of the pages of a table that hold rows: of an ordinary one, and of an index.
_LEAVES = (b"\x0d", b"\x0a")
#: More than is read at once, so that the damage is not on the first page of the feed.
_EVENTS = 3000


class Damaged(NamedTuple):
    served: Served
    #: A session whose feed cannot be read to its end.
    hurt: str
    whole: str


def damage(database: Path, last: int) -> None:
    """Damage the page with an event near the end of the first session's feed."""
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (number,) = connection.execute("SELECT MIN(session_number) FROM events").fetchone()
        (body,) = connection.execute(
            "SELECT body FROM events WHERE session_number = ? AND sequence = ?", (number, last)
        ).fetchone()
    connection.close()
    content = bytearray(database.read_bytes())
    start = content.index(body) // _PAGE * _PAGE
    assert content[start : start + 1] in _LEAVES
    content[start : start + 8] = b"\xff" * 8
    database.write_bytes(content)


async def read_on(read: Callable[[], Awaitable[object]]) -> None:
    """Read until that raises."""
    while True:
        await read()


@pytest.fixture
async def damaged(tmp_path: Path) -> AsyncIterator[Damaged]:
    async with serving(tmp_path) as served:
        hurt, whole = await served.new_session(), await served.new_session()
        last = await publish(served, hurt, _EVENTS, 100)
        await publish(served, whole, 50, 100)
    damage(tmp_path / "home" / "agor.db", last - 100)
    async with serving(tmp_path) as served:
        yield Damaged(served, hurt, whole)


async def test_a_websocket_is_closed_with_a_code_that_says_so(damaged: Damaged) -> None:
    served = damaged.served
    url = f"ws://127.0.0.1:{served.port}/sessions/{damaged.hurt}/events?after=0"
    async with connect(url, additional_headers=served.headers, proxy=None) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await soon(read_on(socket.recv))
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4500
    assert "damaged" in closed.value.rcvd.reason


async def test_events_of_a_server_are_refused_and_a_browser_stays_away(damaged: Damaged) -> None:
    ask, path = damaged.served.ask, f"/sessions/{damaged.hurt}/events?after={_EVENTS - 200}"
    answer = await soon(ask.get(path, headers={"accept": "text/event-stream"}))
    assert answer.status_code == 500
    assert answer.json()["code"] == "store_damaged"
    assert answer.json()["hint"]


async def test_a_client_that_follows_gives_up_at_once(damaged: Damaged) -> None:
    served = damaged.served
    async with Client(served.url, served.token) as client, client.follow(damaged.hurt) as feed:
        with pytest.raises(StoreDamaged, match="damaged") as told:
            await soon(read_on(feed.__anext__))
    assert 0 < feed.cursor < _EVENTS
    assert str(feed.cursor) in told.value.message


async def test_everybody_else_is_served(damaged: Damaged) -> None:
    served = damaged.served
    async with Client(served.url, served.token) as client, client.follow(damaged.whole) as feed:
        for _ in range(50):
            await soon(anext(feed))
    await served.finished(await served.prompt(damaged.whole, "hello"))
    assert (await served.ask.get("/readyz")).status_code == 200
