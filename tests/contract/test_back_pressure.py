"""Ends that read slowly or not at all: senders wait, memory stays bounded, the stalled are cut."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from agor.errors import Disconnected, Overloaded, PeerStalled, TimedOut
from agor.rpc import Limits, Peer
from tests.contract.connections import Connections
from tests.contract.raw_end import notice, request
from tests.contract.service import ECHO, GIVE, NOTE, Operands, Service, Text
from tests.contract.serving_process import served_apart
from tests.contract.waiting import soon, turns, until
from tests.contract.ways import Way

KILOBYTE = Text("x" * 1000)


def fill(peer: Peer) -> int:
    """Notify without waiting until the other end takes no more; count how often."""
    for count in range(100_000):
        if peer.congested:
            return count
        peer.notify(NOTE, KILOBYTE)
    raise AssertionError("it never became congested")


def notify_often(peer: Peer, times: int) -> None:
    for _ in range(times):
        peer.notify(NOTE, KILOBYTE)


async def congest(peer: Peer) -> None:
    """Fill every buffer on the way, so that nothing moves before the other end reads."""
    while True:
        fill(peer)
        try:
            async with asyncio.timeout(0.05):
                await peer.drain()
        except TimeoutError:
            return


async def test_a_sender_that_drains_is_held_back_and_loses_nothing(raw_ends):
    peer, raw = raw_ends
    raw.stop_reading()
    sent: list[str] = []

    async def send() -> None:
        for number in range(5000):
            await peer.drain()
            peer.notify(NOTE, Text(f"{number} {KILOBYTE.text}"))
            sent.append(str(number))

    sending = asyncio.create_task(send())
    await until(lambda: peer.congested)
    await turns(1000)
    assert not sending.done()
    raw.read_on()
    await soon(sending)
    assert [(await raw.hear())["params"]["text"].split()[0] for _ in range(5000)] == sent


async def test_a_sender_that_does_not_wait_is_refused_past_the_bound(way: Way, service: Service):
    limits = Limits(max_unsent=200_000)
    async with way.raw(service.routes, limits) as (peer, raw):
        raw.stop_reading()
        await congest(peer)
        with pytest.raises(Overloaded):
            notify_often(peer, 1000)
        raw.read_on()
        await soon(peer.drain())
        peer.notify(NOTE, Text("once more"))
        while (await raw.hear())["params"]["text"] != "once more":
            pass


async def test_a_call_keeps_its_time_out_while_the_other_end_does_not_read(raw_ends):
    peer, raw = raw_ends
    raw.stop_reading()
    await congest(peer)
    with pytest.raises(TimedOut):
        await soon(peer.call(ECHO, KILOBYTE, timeout=0.05))


async def test_a_call_that_waits_for_room_fails_when_the_other_end_goes(raw_ends):
    peer, raw = raw_ends
    raw.stop_reading()
    await congest(peer)
    call = asyncio.create_task(peer.call(ECHO, KILOBYTE, timeout=None))
    drain = asyncio.create_task(peer.drain())
    await asyncio.sleep(0)
    raw.abort()
    for waiting in (call, drain):
        with pytest.raises(Disconnected):
            await soon(waiting)


async def test_an_end_that_takes_nothing_is_cut_off(way: Way, service: Service):
    async with way.raw(service.routes, Limits(stall_timeout=0.1)) as (peer, raw):
        raw.stop_reading()
        await congest_or_end(peer)
        ending = await soon(peer.wait_closed())
        assert isinstance(ending, PeerStalled)
        with pytest.raises(PeerStalled):
            peer.notify(NOTE, KILOBYTE)
        raw.read_on()


async def congest_or_end(peer: Peer) -> None:
    while peer.connected:
        if peer.congested:
            await asyncio.sleep(0.01)
        else:
            peer.notify(NOTE, KILOBYTE)


@pytest.mark.asyncio(loop_factories=["uvloop"])
async def test_an_end_that_reads_slowly_is_not_cut_off(service: Service):
    """It takes more than the stall time-out to read everything, but something all the time."""
    limits = Limits(stall_timeout=0.4)
    here, there = socket.socketpair()
    here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    there.setblocking(False)
    loop = asyncio.get_running_loop()
    _, peer = await loop.create_unix_connection(lambda: Peer(service.routes, limits), sock=here)
    with there:
        notify_often(peer, 200)
        assert peer.congested
        read, started = 0, loop.time()
        while loop.time() < started + 1.0:
            read += len(await soon(loop.sock_recv(there, 512)))
            await asyncio.sleep(0.01)
        assert peer.connected
        while read < 200 * len(KILOBYTE.text):
            read += len(await soon(loop.sock_recv(there, 65536)))
        await soon(peer.close())


async def test_nothing_more_is_done_for_who_does_not_read_its_answers(raw_ends, service: Service):
    peer, raw = raw_ends
    raw.stop_reading()
    raw.say(*(request(number, "give", 120, 20_000) for number in range(200)))
    raw.say(request("last", "wait", name="last"))
    # What asks for no answer is heard all the same, as acknowledgements must be.
    raw.say(notice("note", text="heard"))
    await until(lambda: peer.congested)
    await until(lambda: service.notes)
    await turns(1000)
    assert not service.started["last"].is_set()
    raw.read_on()
    for number in range(200):
        assert (await raw.hear())["id"] == number
    await soon(service.started["last"].wait())


@pytest.mark.parametrize("loop_kind", ["uvloop", "asyncio"])
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_peers_that_never_read_cost_the_server_little_and_others_nothing(
    tmp_path: Path, connections: Connections, loop_kind: str
):
    async with served_apart(tmp_path, stall_timeout=1.0, loop_kind=loop_kind) as served:
        other = await connections.peer(served.path)
        await soon(other.call(GIVE, Operands(120, 1000)))
        memory, files = served.most_memory, served.open_files
        asking = [
            asyncio.create_task(ask_for_ever(connections.socket(), served.path)) for _ in range(5)
        ]
        # A gigabyte for each ten thousand questions, were they all answered.
        for _ in range(20):
            assert await soon(other.call(GIVE, Operands(121, 1000))) == "y" * 1000
        # Being cut off ends the asking.
        await soon(asyncio.gather(*asking))
        await until(lambda: served.open_files == files)
        assert await soon(other.call(GIVE, Operands(121, 1000))) == "y" * 1000
        assert served.most_memory - memory < 100 * 1024 * 1024
        await soon(other.close())


@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_a_batch_cannot_ask_for_more_than_fits_into_an_answer(
    tmp_path: Path, connections: Connections
):
    async with served_apart(tmp_path, stall_timeout=0.5) as served:
        other = await connections.peer(served.path)
        await soon(other.call(GIVE, Operands(120, 1000)))
        memory, files = served.most_memory, served.open_files
        # Fifty megabytes of results for each line of seventy kilobytes.
        batch = [request(number, "give", 120, 50_000) for number in range(1000)]
        greedy = await connections.raw(served.path)
        greedy.stop_reading()
        greedy.say(*[batch] * 8)
        await until(lambda: served.open_files > files)
        await until(lambda: served.open_files == files)
        assert served.most_memory - memory < 100 * 1024 * 1024
        assert await soon(other.call(GIVE, Operands(121, 1000))) == "y" * 1000


async def ask_for_ever(sock: socket.socket, path: Path) -> None:
    """Ask for 100 KB again and again and read none of it, until we are cut off."""
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, str(path))
    question = b'{"jsonrpc":"2.0","id":1,"method":"give","params":[120,100000]}\n'
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while True:
            await loop.sock_sendall(sock, question * 10_000)
