"""What the machine allows a Python server: the bare technique, without any safeguard.

A uvloop Protocol, msgspec structures, a whole read decoded at once, answers of a read written
together. No cap, no bound, no exact framing (newlines count as white space), no UTF-8 check, no
params check, no cancellation, no table of methods. The gap between this and `ours` is their price.

Usage: python prototype.py SOCKET_PATH
"""

import asyncio
import sys
import time
from typing import Any

import msgspec
import uvloop
from msgspec import Raw, Struct

FIRST_SEQUENCE = 1_000_000
BURST = 64


class Message(Struct, gc=False):
    """Any incoming line."""

    method: str
    id: int | None = None
    params: Raw = Raw()


class Answer(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """What a request gets."""

    id: int | None
    result: Any


class Pong(Struct, gc=False):
    """The answer to `ping`."""

    pong: bool
    timestamp: int


class Event(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """A notification."""

    method: str
    params: Any


class Report(Struct, gc=False):
    """The params of `report_message`."""

    session_token: str
    task_id: str
    sequence: int
    timestamp: int
    event_type: str
    event_data: Any


decode_lines = msgspec.json.Decoder(Message).decode_lines
encode_lines = msgspec.json.Encoder().encode_lines


class Prototype(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.events = 0
        self.partial = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if self.partial:
            data = self.partial + data
        end = data.rfind(b"\n") + 1
        self.partial = data[end:]
        answers = []
        for message in decode_lines(data[:end]):
            method = message.method
            if method == "report_message":
                self.events += 1
            elif method == "ping":
                answers.append(Answer(message.id, Pong(True, time.time_ns() // 1_000_000)))
            elif method == "count":
                answers.append(Answer(message.id, {"count": self.events}))
            else:
                count = msgspec.json.decode(message.params)["count"]
                asyncio.get_running_loop().create_task(self.emit(message.id, count))
        if answers:
            self.transport.write(encode_lines(answers))

    async def emit(self, request_id: int | None, count: int) -> None:
        for start in range(0, count, BURST):
            self.transport.write(encode_lines(self.burst(range(start, min(start + BURST, count)))))
            await asyncio.sleep(0)
        self.transport.write(encode_lines([Answer(request_id, None)]))

    def burst(self, numbers: range) -> list[Event]:
        events = []
        for number in numbers:
            now = time.time_ns() // 1_000_000
            data = {"id": "b1", "text": "xxxx"}
            report = Report("s", "t", FIRST_SEQUENCE + number, now, "block_delta", data)
            events.append(Event("report_message", report))
        return events


async def serve(path: str) -> None:
    await asyncio.get_running_loop().create_unix_server(Prototype, path)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
