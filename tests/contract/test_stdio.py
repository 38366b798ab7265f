"""A connection on two descriptors: what is special about pipes, files and standard streams."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agor.errors import Disconnected
from agor.rpc import Limits, Peer, Routes
from agor.rpc.stdio import StdioConnection
from tests.contract.descriptors import open_files
from tests.contract.raw_end import notice, request
from tests.contract.service import NOTE, Service, Text
from tests.contract.waiting import soon, until
from tests.contract.ways import Stdio

#: Takes its standard streams, disturbs them in every way it can, and then speaks.
DISTURBER = """
import asyncio, os, subprocess, sys
from agor.rpc.stdio import StdioConnection, take_standard_streams
from agor.rpc import Peer
from tests.contract.service import Service

async def main():
    reading, writing = take_standard_streams()
    print("printed")
    os.write(1, b"written to 1")
    subprocess.run(["sh", "-c", "echo from a child; cat"], check=True)
    connection = await StdioConnection.open(reading, writing, lambda: Peer(Service().routes))
    await connection.peer.wait_closed()
    await connection.close()

asyncio.run(main())
"""


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


async def test_files_can_be_spoken_through(tmp_path: Path, service: Service):
    questions, answers = tmp_path / "questions", tmp_path / "answers"
    questions.write_bytes(lines(request(1, "subtract", 2, 1), notice("note", text="x"), 5))
    connection = await StdioConnection.open(
        os.open(questions, os.O_RDONLY),
        os.open(answers, os.O_WRONLY | os.O_CREAT),
        lambda: Peer(service.routes),
    )
    assert type(await soon(connection.peer.wait_closed())) is Disconnected
    await soon(connection.close())
    answered, refused = (json.loads(line) for line in answers.read_text().splitlines())
    assert (answered["result"], refused["error"]["code"]) == (1, -32600)
    assert service.notes == ["x"]


async def test_an_input_that_is_empty_ends_cleanly(service: Service):
    reading = os.open(os.devnull, os.O_RDONLY)
    writing = os.open(os.devnull, os.O_WRONLY)
    connection = await StdioConnection.open(reading, writing, lambda: Peer(service.routes))
    assert type(await soon(connection.peer.wait_closed())) is Disconnected
    await soon(connection.close())


async def test_everything_that_was_said_is_through_the_descriptor_when_close_returns(
    service: Service,
):
    from_peer, writing = os.pipe()
    reading, to_peer = os.pipe()
    connection = await StdioConnection.open(reading, writing, lambda: Peer(service.routes))
    received = bytearray()

    def read() -> None:
        while data := os.read(from_peer, 65536):
            received.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(1000):
        connection.peer.notify(NOTE, Text("x" * 1000))
        await connection.peer.drain()
    await soon(connection.close())
    await asyncio.to_thread(reader.join, 10)
    assert received.count(b"\n") == 1000
    os.close(to_peer)
    os.close(from_peer)


async def test_handlers_are_cancelled_when_neither_end_of_the_pipes_is_left(service: Service):
    async with Stdio().raw(service.routes) as (peer, raw):
        raw.say(request(1, "wait", name="job"))
        await soon(service.started["job"].wait())
        raw.close()
        await soon(service.cancelled["job"].wait())
        await soon(peer.wait_closed())


async def test_an_output_that_nobody_reads_ends_the_connection(service: Service):
    from_peer, writing = os.pipe()
    reading, to_peer = os.pipe()
    connection = await StdioConnection.open(reading, writing, lambda: Peer(service.routes))
    os.close(from_peer)
    with contextlib.suppress(BrokenPipeError):  # it may have noticed already
        os.write(to_peer, lines(request(1, "subtract", 2, 1)))
    await soon(connection.peer.wait_closed())
    os.close(to_peer)
    await soon(connection.close())


async def test_a_closed_connection_lets_go_of_its_descriptors_and_threads(service: Service):
    async def come_and_go() -> None:
        from_peer, writing = os.pipe()
        reading, to_peer = os.pipe()
        connection = await StdioConnection.open(reading, writing, lambda: Peer(service.routes))
        await soon(connection.close())
        await until(lambda: copying() <= threads)
        os.close(from_peer)
        os.close(to_peer)

    threads = copying()
    # The first one makes the loop open what it keeps for itself.
    await come_and_go()
    files = open_files()
    await come_and_go()
    assert open_files() <= files


def copying() -> set[threading.Thread]:
    """List the threads that copy; those of the loop's own pool are no daemons."""
    return {thread for thread in threading.enumerate() if thread.daemon}


async def test_closing_is_bounded_when_the_reader_of_the_output_sleeps(service: Service):
    from_peer, writing = os.pipe()
    reading, to_peer = os.pipe()
    limits = Limits(close_timeout=0.05)
    connection = await StdioConnection.open(reading, writing, lambda: Peer(Routes(), limits))
    while not connection.peer.congested:
        connection.peer.notify(NOTE, Text("x" * 10_000))
    await soon(connection.close(timeout=0.05))
    os.close(from_peer)
    os.close(to_peer)


@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_nothing_else_reaches_a_standard_output_that_was_taken():
    process = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", DISTURBER],
        cwd=Path(__file__).parents[2],
        input=lines(request(1, "subtract", 2, 1)),
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) == {"jsonrpc": "2.0", "id": 1, "result": 1}
    for disturbance in (b"printed", b"written to 1", b"from a child"):
        assert disturbance in process.stderr
