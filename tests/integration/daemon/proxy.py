"""A wire to the daemon that a test can cut, count and hold."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

#: Bytes of the sockets' buffers: what a client does not read is soon the daemon's to keep.
_BUFFER = 64 * 1024


class Proxy:
    """Forwards connections to a port of this machine."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0
        #: Connections that were ever made.
        self.count = 0
        #: Bytes that were taken from the daemon and handed to clients.
        self.forwarded = 0
        #: Answers still to be swallowed: the daemon gives them, and the client is cut instead.
        self.swallow = 0
        #: Set while some client does not take what there is for it.
        self.congested = asyncio.Event()
        self.idle = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Cut every connection, without a word."""
        for connection in self._connections:
            connection.cancel()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.idle.clear()
        self.count += 1
        try:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            up_reader, up_writer = await asyncio.open_connection(sock=await self._connect())
            try:
                await self._forward_both(reader, writer, up_reader, up_writer)
            finally:
                up_writer.transport.abort()
        except (OSError, asyncio.CancelledError):
            # A cut is no failure of the test.
            pass
        finally:
            writer.transport.abort()
            self._connections.discard(task)
            if not self._connections:
                self.idle.set()

    async def _connect(self) -> socket.socket:
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self._target))
        except BaseException:
            sock.close()
            raise
        return sock

    async def _forward_both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> None:
        ways = {
            asyncio.create_task(self._up(reader, up_writer)),
            asyncio.create_task(self._down(up_reader, writer)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(64 * 1024):
            writer.write(data)
            await writer.drain()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(64 * 1024):
            if self.swallow:
                self.swallow -= 1
                return
            writer.write(data)
            draining = asyncio.ensure_future(writer.drain())
            await asyncio.wait((draining,), timeout=0.2)
            if not draining.done():
                self.congested.set()
            await draining
            self.congested.clear()
            self.forwarded += len(data)


@contextlib.asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    """Have a proxy in front of a port."""
    proxy = Proxy(port)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        await server.wait_closed()
