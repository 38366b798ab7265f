"""Our side of the wire group: the real peer with its default limits, serving what the bench asks.

`report_message` is taken as a relay takes it: the envelope is checked, the params are well-formed
and passed on as bytes. With `--typed` every member of the params is checked as well, as the daemon
does.

Usage: python -m bench.wire.ours [--typed] SOCKET_PATH
"""

import asyncio
import sys
from collections.abc import Sequence
from time import time_ns

import uvloop
from msgspec import Raw, Struct

from agor.protocol.forms import Nothing
from agor.protocol.methods import (
    PING,
    REPORT_MESSAGE,
    PingResult,
    ReportMessageParams,
)
from agor.protocol.validation import Method, Notice
from agor.rpc import Peer, Routes, unix
from agor.rpc.listener import Listener

FIRST_SEQUENCE = 1_000_000
BURST = 64
TYPED = "--typed" in sys.argv


class Counted(Struct):
    """A number of events."""

    count: int


class Text(Struct, gc=False):
    """The payload of an event."""

    id: str
    text: str


COUNT = Method("count", Nothing, Counted)
EMIT = Method("emit", Counted, Counted)
PASSED_ON = Notice(REPORT_MESSAGE.name, Raw)


def ping(_: Nothing) -> PingResult:
    return PingResult(True, time_ns() // 1_000_000)


class Connection:
    """What one client asked of us."""

    def __init__(self) -> None:
        routes = Routes()
        routes.on(PING, ping)
        routes.on(COUNT, lambda _: Counted(self.events))
        routes.on(EMIT, self.emit)
        if TYPED:
            routes.on_stream(REPORT_MESSAGE, self.count)
        else:
            routes.on_stream(PASSED_ON, self.count)
        self.events = 0
        self.peer = Peer(routes)

    def count(self, run: Sequence[object]) -> None:
        self.events += len(run)

    async def emit(self, asked: Counted) -> Counted:
        end = FIRST_SEQUENCE + asked.count
        for start in range(FIRST_SEQUENCE, end, BURST):
            self._emit(range(start, min(start + BURST, end)))
            await self.peer.drain()
        return asked

    def _emit(self, sequences: range) -> None:
        peer = self.peer
        for sequence in sequences:
            text = Text("b1", "xxxx")
            now = time_ns() // 1_000_000
            event = ReportMessageParams("s", "t", sequence, now, "block_delta", text)  # type: ignore[arg-type]  # as the executor does: encoded in one go
            peer.notify(REPORT_MESSAGE, event)


async def serve(path: str) -> None:
    Listener(unix.bind(path).listener, lambda: Connection().peer)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[-1]))
