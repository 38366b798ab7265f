"""How a connection ends, over every way in: in order, in mid-line, by force, half at a time."""

from __future__ import annotations

import asyncio

import pytest

from agor.errors import BrokenFrame, Disconnected
from agor.protocol.validation import Method
from agor.rpc import Limits, Peer, Routes
from tests.contract.raw_end import request
from tests.contract.service import ECHO, NOTE, WAIT, Name, Nothing, Service, Text
from tests.contract.waiting import soon, until
from tests.contract.ways import HALF_OPEN, Way


async def waiting_calls(peer: Peer, service: Service, *names: str) -> list[asyncio.Task[str]]:
    calls = [asyncio.create_task(peer.call(WAIT, Name(name), timeout=None)) for name in names]
    for name in names:
        await soon(service.started[name].wait())
    return calls


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_calls_under_way_fail_at_once_when_the_other_end_goes(
    peers, service: Service, how: str
):
    there, here = peers
    calls = await waiting_calls(here, service, "a", "b")
    if how == "close":
        await soon(there.close())
    else:
        there.abort()
    endings = await soon(asyncio.gather(*calls, return_exceptions=True))
    # An orderly close answers what it cancels before it goes.
    assert all(getattr(ending, "code", None) in ("disconnected", "cancelled") for ending in endings)
    assert type(await soon(here.wait_closed())) is Disconnected
    assert not here.connected


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_calls_under_way_fail_at_once_when_this_end_goes(peers, service: Service, how: str):
    _, here = peers
    calls = await waiting_calls(here, service, "a", "b")
    if how == "close":
        await soon(here.close())
    else:
        here.abort()
    endings = await soon(asyncio.gather(*calls, return_exceptions=True))
    assert [type(ending) for ending in endings] == [Disconnected, Disconnected]


async def test_handlers_are_cancelled_when_their_caller_goes(peers, service: Service):
    _, here = peers
    (call,) = await waiting_calls(here, service, "job")
    await soon(here.close())
    await soon(service.cancelled["job"].wait())
    with pytest.raises(Disconnected):
        await call


async def test_after_the_end_every_call_and_notification_is_refused(peers):
    there, here = peers
    await soon(here.close())
    for _ in range(2):
        with pytest.raises(Disconnected):
            await soon(here.call(ECHO, Text("anybody?")))
        with pytest.raises(Disconnected):
            here.notify(NOTE, Text("anybody?"))
    with pytest.raises(Disconnected):
        await soon(here.drain())
    await soon(there.wait_closed())
    with pytest.raises(Disconnected):
        await soon(there.call(ECHO, Text("anybody?")))


async def test_closing_twice_or_at_both_ends_at_once_is_harmless(peers):
    there, here = peers
    await soon(asyncio.gather(here.close(), there.close(), here.close()))
    await soon(here.close())
    assert type(await soon(there.wait_closed())) is Disconnected


async def test_many_can_wait_for_the_end_and_one_may_give_up(peers):
    _, here = peers
    impatient = asyncio.create_task(here.wait_closed())
    others = [asyncio.create_task(here.wait_closed()) for _ in range(3)]
    await asyncio.sleep(0)
    impatient.cancel()
    await soon(here.close())
    assert {type(ending) for ending in await soon(asyncio.gather(*others))} == {Disconnected}


async def test_a_handler_may_close_its_own_connection(peers, service: Service):
    there, here = peers
    leave: Method[Nothing, None] = Method("leave", Nothing, type(None))
    left = asyncio.Event()

    async def handle(_: Nothing) -> None:
        await there.close()
        left.set()

    service.routes.on(leave, handle)
    call = asyncio.create_task(here.call(leave, Nothing(), timeout=None))
    await soon(here.wait_closed())
    await soon(asyncio.gather(call, return_exceptions=True))
    await soon(left.wait())


async def test_a_stream_that_ends_between_lines_ends_cleanly(raw_ends):
    peer, raw = raw_ends
    assert (await raw.ask(request(1, "subtract", 2, 1)))["result"] == 1
    raw.close()
    ending = await soon(peer.wait_closed())
    assert type(ending) is Disconnected


async def test_a_stream_that_ends_in_mid_line_is_a_broken_frame(raw_ends):
    peer, raw = raw_ends
    raw.write(b'{"jsonrpc":"2.0","id":1,"me')
    raw.close()
    ending = await soon(peer.wait_closed())
    assert isinstance(ending, BrokenFrame)
    assert "27 bytes" in ending.message


async def test_a_whole_message_without_its_newline_is_not_carried_out(raw_ends, service: Service):
    peer, raw = raw_ends
    raw.write(b'{"jsonrpc":"2.0","method":"note","params":{"text":"cut off?"}}')
    raw.close()
    assert isinstance(await soon(peer.wait_closed()), BrokenFrame)
    assert service.notes == []


async def test_what_was_said_before_a_close_still_arrives(peers, service: Service):
    there, here = peers
    for number in range(500):
        here.notify(NOTE, Text(f"{number} {'x' * 1000}"))
        await here.drain()
    await soon(here.close())
    await soon(there.wait_closed())
    assert len(service.notes) == 500


@HALF_OPEN
async def test_who_stops_writing_still_gets_the_answers_it_awaits(way: Way, service: Service):
    async with way.raw(service.routes) as (peer, raw):
        raw.say(request(1, "wait", name="slow"), request(2, "subtract", 2, 1))
        raw.stop_writing()
        await soon(service.started["slow"].wait())
        assert (await raw.hear())["id"] == 2
        service.open_gate("slow").set_result("at last")
        assert [answer["result"] for answer in await raw.rest()] == ["at last"]
        assert type(await soon(peer.wait_closed())) is Disconnected


@HALF_OPEN
async def test_who_stops_writing_in_mid_line_is_told_so(way: Way, service: Service):
    async with way.raw(service.routes) as (peer, raw):
        raw.write(b'{"jsonrpc":"2.0","id":1,"method":"subtract","params":[2,1]}\n{"jso')
        raw.stop_writing()
        answered, complaint = await raw.rest()
        assert answered["result"] == 1
        assert (complaint["id"], complaint["error"]["code"]) == (None, -32700)
        assert isinstance(await soon(peer.wait_closed()), BrokenFrame)


@HALF_OPEN
async def test_who_stops_writing_in_mid_line_is_told_so_once(way: Way, service: Service):
    async with way.raw(service.routes) as (peer, raw):
        raw.stop_reading()
        raw.say(request(1, "wait", name="long"), request(2, "wait", name="longer"))
        raw.write(b'{"jso')
        raw.stop_writing()
        await soon(service.started["longer"].wait())
        await until(lambda: not peer.connected)
        # So much that the peer must wait in the middle of it, and look at its input again.
        service.open_gate("long").set_result("x" * 5_000_000)
        await until(lambda: peer.congested)
        raw.read_on()
        await until(lambda: not peer.congested)
        service.open_gate("longer").set_result("done")
        answers = await raw.rest()
        assert [answer["id"] for answer in answers] == [None, 1, 2]


@HALF_OPEN
async def test_our_own_calls_fail_when_the_other_end_stops_writing(way: Way, service: Service):
    async with way.raw(service.routes) as (peer, raw):
        call = asyncio.create_task(peer.call(ECHO, Text("hello?"), timeout=None))
        await raw.hear()
        raw.stop_writing()
        with pytest.raises(Disconnected):
            await soon(call)


async def test_a_handler_that_will_not_be_cancelled_does_not_hold_up_the_close(
    way: Way, service: Service
):
    stubborn: Method[Nothing, None] = Method("stubborn", Nothing, type(None))
    started, released = asyncio.Event(), asyncio.Event()

    async def handle(_: Nothing) -> None:
        started.set()
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    service.routes.on(stubborn, handle)
    async with way.peers(service.routes, Routes(), Limits(close_timeout=0.05)) as (there, here):
        call = asyncio.create_task(here.call(stubborn, Nothing(), timeout=None))
        await soon(started.wait())
        await soon(there.close())
        with pytest.raises(Disconnected):
            await soon(call)
        released.set()


async def test_a_peer_that_was_never_connected_can_be_closed():
    peer = Peer(Routes())
    with pytest.raises(Disconnected, match="not connected"):
        peer.notify(NOTE, Text("hello?"))
    with pytest.raises(Disconnected):
        await soon(peer.call(ECHO, Text("hello?")))
    await soon(peer.close())
    await soon(peer.close())
    assert isinstance(await soon(peer.wait_closed()), Disconnected)
