"""A cold Python executor: asyncio and msgspec, with `--sdk` the agent's SDK as well.

Serves the listening socket that is its standard input. On SIGUSR1 it runs a full collection, so
that its memory can be compared with that of others at the same point.
"""

import asyncio
import gc
import importlib
import signal
import socket
import sys
import time

import msgspec

if "--sdk" in sys.argv:
    importlib.import_module("claude_agent_sdk")


class Request(msgspec.Struct, gc=False):
    id: int
    method: str


class Pong(msgspec.Struct, gc=False):
    pong: bool
    timestamp: int


class Answer(msgspec.Struct, gc=False):
    id: int
    result: Pong
    jsonrpc: str = "2.0"


class Server(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._decode = msgspec.json.Decoder(Request).decode_lines
        self._encode = msgspec.json.Encoder().encode

    def data_received(self, data: bytes) -> None:
        for request in self._decode(data):
            pong = Pong(pong=True, timestamp=time.time_ns() // 1_000_000)
            self._transport.write(self._encode(Answer(request.id, pong)) + b"\n")


async def main() -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, gc.collect)
    server = await loop.create_unix_server(Server, sock=socket.socket(fileno=0))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
