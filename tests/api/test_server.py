"""Listening, and ceasing to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from agor.daemon.api.server import ApiServer, bind
from agor.errors import SocketInUse, SocketUnusable
from tests.api.raw import RawConnection, spelled
from tests.api.serving import Served, serving
from tests.contract.waiting import soon, until


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
async def test_any_free_port_will_do(served: Served, host: str) -> None:
    server = ApiServer(served.app)
    port = await server.start(host, 0)
    try:
        assert port > 0
        at = f"[{host}]" if ":" in host else host
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"http://{at}:{port}/livez")).status_code == 200
    finally:
        await server.stop(1.0)


async def test_a_port_in_use_is_told_in_words(served: Served) -> None:
    with pytest.raises(SocketInUse) as refused:
        await ApiServer(served.app).start("127.0.0.1", served.port)
    assert str(served.port) in refused.value.message
    assert refused.value.hint is not None
    assert "daemon.port" in refused.value.hint
    assert (await served.ask.get("/livez")).status_code == 200


async def test_an_address_that_is_not_ours_is_told_in_words() -> None:
    with pytest.raises(SocketUnusable) as refused:
        bind("192.0.2.1", 0)
    assert "192.0.2.1" in refused.value.message


async def test_a_port_can_be_used_again_at_once(served: Served) -> None:
    first = ApiServer(served.app)
    port = await first.start("127.0.0.1", 0)
    async with await RawConnection.open(port) as connection:
        await connection.send(spelled("GET", "/livez"))
        await connection.answer()
        await first.stop(1.0)
        second = ApiServer(served.app)
        assert await second.start("127.0.0.1", port) == port
        await second.stop(1.0)


async def test_an_ended_server_takes_nobody_and_holds_nobody(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        async with await RawConnection.open(served.port) as idle:
            await idle.send(spelled("GET", "/livez"))
            await idle.answer()
            await soon(served.server.stop(5.0))
            assert await idle.ended() == b""
        with pytest.raises(OSError), contextlib.closing(socket.socket()) as end:
            end.connect(("127.0.0.1", served.port))
        await served.server.stop(5.0)


class Held:
    """Sessions that are listed when the test says so."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    async def page(self, *_: Any) -> Any:
        self.begun.set()
        await self.go.wait()
        return {"items": []}


async def test_a_request_under_way_is_answered_before_the_end(tmp_path: Path) -> None:
    held = Held()
    async with serving(tmp_path, change=lambda _: {"sessions": held}) as served:
        asking = asyncio.create_task(served.ask.get("/sessions"))
        await soon(held.begun.wait())
        stopping = asyncio.create_task(served.server.stop(10.0))
        assert served.server._server is not None
        listening = served.server._server.servers[0]
        await until(lambda: not listening.is_serving())
        held.go.set()
        assert (await soon(asking)).status_code == 200
        await soon(stopping)


async def test_a_request_that_does_not_end_does_not_hold_the_end_up(tmp_path: Path) -> None:
    held = Held()
    async with serving(tmp_path, change=lambda _: {"sessions": held}) as served:
        asking = asyncio.create_task(served.ask.get("/sessions"))
        await soon(held.begun.wait())
        await soon(served.server.stop(0.2))
        with pytest.raises(httpx.HTTPError):
            await soon(asking)


async def test_at_the_end_no_new_feed_is_begun(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session_id = await served.new_session()
        await served.app.feeds.close(1.0)
        answer = await served.ask.get(f"/sessions/{session_id}/events")
        assert answer.status_code == 503
        assert answer.json()["code"] == "pool_closed"


async def test_answers_name_no_software(served: Served) -> None:
    answer = await served.ask.get("/livez")
    assert "server" not in answer.headers
    assert "date" in answer.headers
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
