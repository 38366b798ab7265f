"""Accepting connections: how many, under which strains, and what is left when it closes."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from pathlib import Path

import pytest
import structlog

from agor.errors import Disconnected, SocketUnusable
from agor.rpc import Peer, unix
from agor.rpc.listener import Listener
from tests.contract.connections import Connections
from tests.contract.service import SUBTRACT, WAIT, Name, Operands, Service
from tests.contract.waiting import soon, turns, until


async def test_many_connections_are_served_at_once(
    listening: tuple[Path, Listener], connections: Connections
):
    path, listener = listening
    peers = [await connections.peer(path) for _ in range(50)]
    calls = [peer.call(SUBTRACT, Operands(number, 1)) for number, peer in enumerate(peers)]
    assert await soon(asyncio.gather(*calls)) == [number - 1 for number in range(50)]
    assert listener.connections == 50
    await soon(asyncio.gather(*(peer.close() for peer in peers)))
    await until(lambda: listener.connections == 0)


async def test_connections_past_the_bound_are_told_so_and_room_is_made_again(
    tmp_path: Path, service: Service, connections: Connections
):
    bound = unix.bind(tmp_path / "s")
    listener = connections.listen(bound.listener, lambda: Peer(service.routes), 2)
    first, second = [await connections.peer(bound.path) for _ in range(2)]
    await until(lambda: listener.connections == 2)
    refused = await connections.raw(bound.path)
    (answer,) = await refused.rest()
    assert (answer["id"], answer["error"]["code"]) == (None, -32001)
    with pytest.raises(Disconnected, match="2 connections are open already"):
        await soon((await connections.peer(bound.path)).call(SUBTRACT, Operands(2, 1)))
    await soon(first.close())
    await until(lambda: listener.connections == 1)
    third = await connections.peer(bound.path)
    for peer in (second, third):
        assert await soon(peer.call(SUBTRACT, Operands(2, 1))) == 1


async def test_closing_ends_every_connection_and_frees_the_path(
    tmp_path: Path, service: Service, connections: Connections
):
    bound = unix.bind(tmp_path / "s")
    listener = connections.listen(bound.listener, lambda: Peer(service.routes))
    peers = [await connections.peer(bound.path) for _ in range(5)]
    call = asyncio.create_task(peers[0].call(WAIT, Name("job"), timeout=None))
    await soon(service.started["job"].wait())
    await soon(listener.close())
    assert service.cancelled["job"].is_set()
    for peer in peers:
        assert type(await soon(peer.wait_closed())) is Disconnected
    await soon(asyncio.gather(call, return_exceptions=True))
    with pytest.raises(SocketUnusable):
        await soon(connections.peer(bound.path))
    again = unix.bind(bound.path)
    again.listener.close()


async def test_one_connection_that_cannot_be_served_does_not_end_the_accepting(
    tmp_path: Path, service: Service, connections: Connections
):
    attempts = 0

    def make_peer() -> Peer:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise RuntimeError("not this time")
        return Peer(service.routes)

    bound = unix.bind(tmp_path / "s")
    connections.listen(bound.listener, make_peer)
    unlucky = await connections.raw(bound.path)
    await soon(unlucky.ended.wait())
    here = await connections.peer(bound.path)
    assert await soon(here.call(SUBTRACT, Operands(2, 1))) == 1


async def test_running_out_of_descriptors_delays_connections_and_loses_none(
    listening: tuple[Path, Listener], connections: Connections
):
    path, _ = listening
    first = await connections.peer(path)
    assert await soon(first.call(SUBTRACT, Operands(2, 1))) == 1
    late = connections.socket()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with structlog.testing.capture_logs() as logs:
        # No number is free below the limit any more; what is open stays usable.
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            late.connect(str(path))
            await until(lambda: any(entry["event"] == "cannot_accept" for entry in logs))
            assert await soon(first.call(SUBTRACT, Operands(3, 1))) == 2
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    loop = asyncio.get_running_loop()
    question = b'{"jsonrpc":"2.0","id":1,"method":"subtract","params":[9,1]}\n'
    await soon(loop.sock_sendall(late, question))
    assert b'"result":8' in await soon(loop.sock_recv(late, 1000))


class CountingSocket(socket.socket):
    """A real socket that counts how often somebody was to be accepted."""

    attempts = 0

    def accept(self):
        self.attempts += 1
        return super().accept()


async def test_a_listening_socket_that_is_shut_down_elsewhere_does_not_keep_us_busy(
    tmp_path: Path, service: Service, connections: Connections
):
    # Who handed the socket down still has it, and may do this to it.
    bound = unix.bind(tmp_path / "s")
    counting = CountingSocket(fileno=os.dup(bound.listener.fileno()))
    connections.listen(counting, lambda: Peer(service.routes))
    here = await connections.peer(bound.path)
    assert await soon(here.call(SUBTRACT, Operands(2, 1))) == 1
    bound.listener.shutdown(socket.SHUT_RDWR)
    bound.listener.close()
    await turns(500)
    assert counting.attempts < 50
    assert await soon(here.call(SUBTRACT, Operands(3, 1))) == 2
