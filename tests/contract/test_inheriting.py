"""Inheriting a listening socket, and connecting: what is refused, and in which words."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agor.errors import SocketUnusable
from agor.rpc import Peer, Routes, unix
from agor.rpc.unix import BoundSocket
from tests.contract.connections import Connections
from tests.contract.descriptors import open_files
from tests.contract.service import SUBTRACT, Operands, Service
from tests.contract.waiting import soon


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "s"


@pytest.fixture
def bound(path: Path) -> Iterator[BoundSocket]:
    made = unix.bind(path)
    yield made
    made.listener.close()


def test_an_inherited_socket_is_moved_out_of_the_way(path: Path, bound: BoundSocket):
    fd = os.dup(bound.listener.fileno())
    inherited = unix.inherit(fd)
    assert inherited.fileno() >= 3
    assert not inherited.get_inheritable()
    assert inherited.getsockname() == str(path)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)
    inherited.close()


@pytest.mark.parametrize("kind", ["pipe", "file", "connected", "unbound", "internet", "closed"])
def test_a_descriptor_that_is_no_listening_unix_socket_is_refused(path: Path, kind: str):
    made: list[socket.socket] = []
    if kind == "pipe":
        fd, other = os.pipe()
        os.close(other)
    elif kind == "file":
        fd = os.open(os.devnull, os.O_RDWR)
    elif kind == "connected":
        made.extend(socket.socketpair())
        fd = os.dup(made[0].fileno())
    elif kind == "unbound":
        made.append(socket.socket(socket.AF_UNIX))
        fd = os.dup(made[0].fileno())
    elif kind == "internet":
        made.append(socket.create_server(("127.0.0.1", 0)))
        fd = os.dup(made[0].fileno())
    else:
        fd = os.open(os.devnull, os.O_RDWR)
        os.close(fd)
    before = open_files()
    with pytest.raises(SocketUnusable, match=f"descriptor {fd}"):
        unix.inherit(fd)
    assert open_files() == before
    if kind != "closed":
        os.close(fd)
    for sock in made:
        sock.close()


async def test_connecting_to_nothing_says_what_is_missing(path: Path):
    with pytest.raises(SocketUnusable, match="No such file") as caught:
        await soon(unix.connect(path, Routes()))
    assert caught.value.hint
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    with pytest.raises(SocketUnusable, match="refused"):
        await soon(unix.connect(path, Routes()))
    with pytest.raises(SocketUnusable, match="too long"):
        await soon(unix.connect(path.parent / ("x" * 200), Routes()))


async def test_a_queue_that_stays_full_is_not_taken_for_a_connection(path: Path):
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first:
        busy.bind(str(path))
        busy.listen(0)
        first.connect(str(path))
        with pytest.raises(SocketUnusable):
            await soon(connect_and_close(path))


async def connect_and_close(path: Path) -> None:
    peer = await unix.connect(path, Routes(), timeout=0.1)
    await peer.close()


async def test_a_socket_listens_from_the_moment_it_is_bound(
    bound: BoundSocket, service: Service, connections: Connections
):
    # Readiness needs no polling: who connects before anybody accepts is served later.
    here = await connections.peer(bound.path)
    connections.listen(bound.listener, lambda: Peer(service.routes))
    assert await soon(here.call(SUBTRACT, Operands(42, 23))) == 19
