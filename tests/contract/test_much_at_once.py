"""Ends that ask for much and read it: they get all of it, however much and however slowly."""

from __future__ import annotations

import asyncio

from agor.rpc import Limits, Peer
from tests.contract.raw_end import request
from tests.contract.service import ECHO, GIVE, NOTE, SLOW_ECHO, Operands, Service, Text
from tests.contract.waiting import soon, until
from tests.contract.ways import HALF_OPEN, Way


async def test_who_asks_for_much_at_once_and_reads_it_gets_all_of_it(way: Way, service: Service):
    limits = Limits(max_unsent=500_000)
    async with way.raw(service.routes, limits) as (_, raw):
        # Ten megabytes of answers to one read of questions.
        raw.say(*(request(number, "give", 120, 50_000) for number in range(200)))
        for number in range(200):
            assert (await raw.hear())["id"] == number


@HALF_OPEN
async def test_who_asks_for_much_and_stops_writing_gets_all_of_it(way: Way, service: Service):
    limits = Limits(max_unsent=500_000)
    async with way.raw(service.routes, limits) as (_, raw):
        raw.say(*(request(number, "give", 120, 50_000) for number in range(200)))
        raw.stop_writing()
        assert [answer["id"] for answer in await raw.rest()] == list(range(200))


@HALF_OPEN
async def test_who_stops_writing_may_take_its_time_to_read(way: Way, service: Service):
    # The time to close in is for us; how long another may take to read, the stall time-out says.
    limits = Limits(close_timeout=0.05, stall_timeout=60)
    async with way.raw(service.routes, limits) as (peer, raw):
        raw.stop_reading()
        raw.say(request(1, "give", 120, 5_000_000))
        raw.stop_writing()
        ended = asyncio.create_task(peer.wait_closed())
        await asyncio.wait([ended], timeout=0.3)
        assert not ended.done()
        raw.read_on()
        assert [len(answer["result"]) for answer in await raw.rest()] == [5_000_000]
        await soon(ended)


async def test_peers_that_ask_each_other_for_much_at_once_both_get_it(
    way: Way, service: Service, own_service: Service
):
    # Each has more to say than fits on the way, and must read the other's answers all the same.
    async with way.peers(service.routes, own_service.routes) as (there, here):
        calls = [
            peer.call(GIVE, Operands(120, 500_000), timeout=None)
            for peer in (there, here)
            for _ in range(20)
        ]
        answers: list[str] = await soon(asyncio.gather(*calls))
        assert {len(answer) for answer in answers} == {500_000}


async def test_peers_that_tell_and_ask_each_other_much_do_not_wait_for_each_other(
    way: Way, service: Service, own_service: Service
):
    much = Text("x" * 3_000_000)

    async def tell(peer: Peer) -> None:
        for _ in range(10):
            await peer.drain()
            peer.notify(NOTE, much)

    async def ask(peer: Peer) -> None:
        for method in (ECHO, SLOW_ECHO):
            assert await peer.call(method, much, timeout=None) == much

    async with way.peers(service.routes, own_service.routes) as both:
        talk = [tell(peer) for peer in both] + [ask(peer) for peer in both for _ in range(5)]
        await soon(asyncio.gather(*talk))
        await until(lambda: len(service.notes) == len(own_service.notes) == 10)
