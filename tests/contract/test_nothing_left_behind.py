"""Connections come and go by the thousand and leave no descriptor and no task."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import weakref
from pathlib import Path

from agor.rpc import Routes, memory
from agor.rpc.listener import Listener
from tests.contract.descriptors import open_files
from tests.contract.service import SUBTRACT, WAIT, Name, Operands, Service
from tests.contract.waiting import soon, until

LINES = {
    "at once": b"",
    "in mid-line": b'{"jsonrpc":"2.0","id":1,"meth',
    "after an answer": b'{"jsonrpc":"2.0","id":1,"method":"subtract","params":[2,1]}\n',
    "with a request in flight": b'{"jsonrpc":"2.0","id":1,"method":"wait","params":["job"]}\n',
    "with a batch in flight": (
        b'[{"jsonrpc":"2.0","id":1,"method":"wait","params":["a"]},'
        b'{"jsonrpc":"2.0","id":2,"method":"wait","params":["b"]}]\n'
    ),
    "with many answers unread": (
        b'{"jsonrpc":"2.0","id":1,"method":"give","params":[120,100000]}\n' * 20
    ),
    "after nonsense": b"nonsense\n" * 10,
}


async def connect(sock: socket.socket, path: Path) -> None:
    """Connect, waiting while the queue of those to be accepted is full."""
    while True:
        try:
            sock.connect(str(path))
        except BlockingIOError:
            await asyncio.sleep(0)
        else:
            return


async def come_and_go(path: Path, said: bytes, *, reset: bool) -> None:
    loop = asyncio.get_running_loop()
    sock = socket.socket(socket.AF_UNIX)
    sock.setblocking(False)
    with sock:
        await connect(sock, path)
        if said:
            await loop.sock_sendall(sock, said)
        if said.startswith(b'{"jsonrpc":"2.0","id":1,"method":"subtract"'):
            assert b'"result":1' in await loop.sock_recv(sock, 1000)
        if not reset:
            sock.shutdown(socket.SHUT_WR)


async def test_a_thousand_connections_leave_nothing_behind(
    listening: tuple[Path, Listener], service: Service
):
    path, listener = listening
    # The event loop opens something for itself at its first connection.
    await soon(come_and_go(path, LINES["after an answer"], reset=True))
    await until(lambda: listener.connections == 0)
    tasks, files = asyncio.all_tasks(), open_files()
    chance = random.Random(1)
    for _ in range(20):
        group = [
            come_and_go(path, said, reset=chance.random() < 0.5)
            for said in chance.choices(list(LINES.values()), k=50)
        ]
        await soon(asyncio.gather(*group))
    await until(lambda: listener.connections == 0)
    await until(lambda: asyncio.all_tasks() <= tasks)
    await until(lambda: open_files() == files)
    assert all(not gate.done() for gate in service.gates.values())


async def test_a_peer_that_has_ended_is_forgotten(service: Service):
    here, there = memory.pair(Routes(), service.routes)
    assert await soon(here.call(SUBTRACT, Operands(2, 1))) == 1
    waiting = asyncio.create_task(here.call(WAIT, Name("job"), timeout=None))
    await soon(service.started["job"].wait())
    remembered = [weakref.ref(here), weakref.ref(there)]
    await soon(here.close())
    await soon(there.wait_closed())
    await soon(asyncio.gather(waiting, return_exceptions=True))
    del here, there, waiting

    def forgotten() -> bool:
        gc.collect()
        return all(peer() is None for peer in remembered)

    await until(forgotten)


async def test_calls_that_ended_in_every_way_leave_nothing_pending(peers, service: Service):
    there, here = peers
    tasks = asyncio.all_tasks()
    calls = [
        asyncio.create_task(here.call(WAIT, Name(str(number)), timeout=None)) for number in range(9)
    ]
    for number in range(9):
        await soon(service.started[str(number)].wait())
    for call in calls[:3]:
        call.cancel()
    for number in range(3, 6):
        service.open_gate(str(number)).set_result("done")
    for number in range(6, 9):
        service.open_gate(str(number)).set_exception(ValueError("a bug"))
    await soon(asyncio.gather(*calls, return_exceptions=True))
    for number in range(3):
        await soon(service.cancelled[str(number)].wait())
    await until(lambda: asyncio.all_tasks() <= tasks)
    assert len(here._pending) == 0
    # Every place in flight is free again.
    more = [here.call(SUBTRACT, Operands(number, 1)) for number in range(256)]
    assert await soon(asyncio.gather(*more)) == [number - 1 for number in range(256)]
    assert there.connected
