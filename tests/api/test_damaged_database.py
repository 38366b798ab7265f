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
#: The first byte of pages that hold the rows of a table, and the entries of an index.
_ROWS, _ENTRIES = b"\x0d", b"\x0a"
#: More than is read at once, so that the damage is not on the first page of the feed.
_EVENTS = 3000


class Damaged(NamedTuple):
    served: Served
    #: A session whose feed cannot be read to its end.
    hurt: str
    whole: str


def tidy(database: Path) -> None:
    """Move everything into the database file, in order: without copies in pages that were split."""
    with sqlite3.connect(database) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def damage(database: Path, found: bytes, leaf: bytes) -> None:
    """Damage the page with these bytes that holds rows, or entries of an index."""
    content = bytearray(database.read_bytes())
    starts = range(0, len(content), _PAGE)
    pages = [start for start in starts if found in content[start : start + _PAGE]]
    (start,) = (start for start in pages if content[start : start + 1] == leaf)
    content[start : start + 8] = b"\xff" * 8
    database.write_bytes(content)


def damage_event(database: Path, sequence: int) -> None:
    """Damage the page with an event of the first session: it cannot be read."""
    tidy(database)
    with sqlite3.connect(database) as connection:
        (body,) = connection.execute(
            "SELECT body FROM events WHERE session_number = 1 AND sequence = ?", (sequence,)
        ).fetchone()
    connection.close()
    damage(database, body, _ROWS)


def damage_index(database: Path, sequence: int) -> None:
    """Damage the page that the first session's feed goes on in: nothing can be added to it."""
    tidy(database)
    # An entry of the index: the types of its three numbers, the first of which is 1, and these.
    damage(database, bytes([4, 9, 2, 2]) + sequence.to_bytes(2), _ENTRIES)


def leave_unfinished(database: Path, task: str) -> None:
    """Have a task be one that a daemon left when it was killed."""
    with sqlite3.connect(database) as connection:
        found = connection.execute(
            "UPDATE tasks SET status = 'running', ended_at = NULL, result = NULL,"
            " executor_id = 'gone' WHERE task_id = ?",
            (task,),
        )
        assert found.rowcount == 1
    connection.close()


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
    damage_event(tmp_path / "home" / "agor.db", last - 100)
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


async def test_a_task_that_cannot_be_ended_keeps_no_daemon_from_starting(tmp_path: Path) -> None:
    database = tmp_path / "home" / "agor.db"
    async with serving(tmp_path) as served:
        hurt, between, whole = [await served.new_session() for _ in range(3)]
        lost, also_left = await served.prompt(hurt, "one"), await served.prompt(whole, "two")
        await served.finished(lost)
        await served.finished(also_left)
        last = await publish(served, hurt, 300)
        # So many that no page has something of both of the others.
        await publish(served, between, 600)
    for task in (lost, also_left):
        leave_unfinished(database, task)
    damage_index(database, last)
    async with serving(tmp_path) as served:
        # What another session's killed daemon left is reported, and it goes on.
        assert (await served.finished(also_left))["status"] == "failed"
        await served.finished(await served.prompt(whole, "hello"))
        refused = await served.ask.post(f"/sessions/{hurt}/prompt", json={"prompt": "hello"})
        assert refused.status_code == 500, refused.text
        assert refused.json()["code"] == "store_damaged"
        assert (await served.ask.get("/readyz")).status_code == 200
