"""Connections and listeners that a test makes one by one, and that end with it, come what may."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from agor.rpc import Peer, Routes, unix
from agor.rpc.listener import Listener
from tests.contract.raw_end import RawEnd


class Connections:
    """Opens what a test asks for and closes it in the reverse order."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    def listen(
        self, sock: socket.socket, make_peer: Callable[[], Peer], max_connections: int = 64
    ) -> Listener:
        """Serve on a socket."""
        listener = Listener(sock, make_peer, max_connections)
        self._stack.push_async_callback(listener.close)
        return listener

    async def peer(self, path: Path) -> Peer:
        """Connect to a path as a peer that serves nothing."""
        peer = await unix.connect(path, Routes())
        self._stack.push_async_callback(peer.close)
        return peer

    async def raw(self, path: Path) -> RawEnd:
        """Connect to a path as a raw end."""
        _, raw = await asyncio.get_running_loop().create_unix_connection(RawEnd, str(path))
        self._stack.push_async_callback(raw.drop)
        return raw

    def socket(self) -> socket.socket:
        """Make a socket that is not connected yet."""
        made = socket.socket(socket.AF_UNIX)
        self._stack.callback(made.close)
        made.setblocking(False)
        return made


@asynccontextmanager
async def opening() -> AsyncIterator[Connections]:
    """Close at the end whatever was opened."""
    async with AsyncExitStack() as stack:
        yield Connections(stack)
