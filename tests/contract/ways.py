"""The ways in: each joins a peer that is served with one that connects, or with a raw end."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from agor.rpc import Limits, Peer, Routes, memory, unix
from agor.rpc.listener import Listener
from agor.rpc.stdio import StdioConnection
from tests.contract.raw_end import RawEnd
from tests.contract.waiting import until


class Way(ABC):
    """One way in. What it opens is closed with it."""

    name: str

    @asynccontextmanager
    async def peers(
        self, served: Routes, connecting: Routes, limits: Limits | None = None
    ) -> AsyncIterator[tuple[Peer, Peer]]:
        """Join two peers: the one that was connected to, and the one that connected."""
        async with AsyncExitStack() as stack:
            there, here = await self._join(stack, lambda: Peer(served, limits), connecting, limits)
            yield there, cast("Peer", here)

    @asynccontextmanager
    async def raw(
        self, served: Routes, limits: Limits | None = None
    ) -> AsyncIterator[tuple[Peer, RawEnd]]:
        """Join a peer and a raw end."""
        async with AsyncExitStack() as stack:
            there, here = await self._join(stack, lambda: Peer(served, limits), None, limits)
            yield there, cast("RawEnd", here)

    @abstractmethod
    async def _join(
        self,
        stack: AsyncExitStack,
        make_peer: Callable[[], Peer],
        connecting: Routes | None,
        limits: Limits | None,
    ) -> tuple[Peer, Peer | RawEnd]: ...


class UnixPath(Way):
    """A socket bound at a path."""

    name = "unix"

    async def _join(self, stack, make_peer, connecting, limits):
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bound = unix.bind(folder / "s")
        stack.callback(bound.remove)
        return await self._serve(
            stack, self._hand_over(bound.listener), folder / "s", make_peer, connecting, limits
        )

    def _hand_over(self, listening: socket.socket) -> socket.socket:
        return listening

    async def _serve(
        self,
        stack: AsyncExitStack,
        listening: socket.socket,
        path: Path,
        make_peer: Callable[[], Peer],
        connecting: Routes | None,
        limits: Limits | None,
    ) -> tuple[Peer, Peer | RawEnd]:
        made: list[Peer] = []

        def make() -> Peer:
            made.append(make_peer())
            return made[-1]

        listener = Listener(listening, make)
        stack.push_async_callback(listener.close)
        here: Peer | RawEnd
        if connecting is None:
            here = raw = await _raw_end_at(path)
            stack.push_async_callback(raw.drop)
        else:
            here = peer = await unix.connect(path, connecting, limits)
            stack.push_async_callback(peer.close)
        await until(lambda: made and made[0].connected)
        return made[0], here


class InheritedFd(UnixPath):
    """A listening socket that came as a descriptor."""

    name = "inherited"

    def _hand_over(self, listening: socket.socket) -> socket.socket:
        fd = os.dup(listening.fileno())
        listening.close()
        return unix.inherit(fd)


class Stdio(Way):
    """Two pipes."""

    name = "stdio"

    async def _join(self, stack, make_peer, connecting, limits):
        from_here, to_there = os.pipe()
        from_there, to_here = os.pipe()
        there = await StdioConnection.open(from_here, to_here, make_peer)
        stack.push_async_callback(there.close)
        if connecting is None:
            raw = await _raw_end_of_pipes(from_there, to_there)
            stack.push_async_callback(raw.drop)
            return there.peer, raw
        here = await StdioConnection.open(from_there, to_there, lambda: Peer(connecting, limits))
        stack.push_async_callback(here.close)
        return there.peer, here.peer


async def _raw_end_at(path: Path) -> RawEnd:
    _, raw = await asyncio.get_running_loop().create_unix_connection(RawEnd, str(path))
    return raw


async def _raw_end_of_pipes(reading: int, writing: int) -> RawEnd:
    loop = asyncio.get_running_loop()
    _, raw = await loop.connect_read_pipe(RawEnd, os.fdopen(reading, "rb", 0))
    out, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(writing, "wb", 0))
    raw.write_to(out)
    return raw


class Memory(Way):
    """A pair in one process."""

    name = "memory"

    async def _join(self, stack, make_peer, connecting, limits):
        there = make_peer()
        here: Peer | RawEnd = RawEnd() if connecting is None else Peer(connecting, limits)
        memory.join(there, here)
        stack.push_async_callback(there.close)
        if isinstance(here, RawEnd):
            stack.push_async_callback(here.drop)
        return there, here


ALL_WAYS: tuple[Way, ...] = (UnixPath(), InheritedFd(), Stdio(), Memory())

#: The ways in which one end can stop writing and go on reading; a memory pair has no such thing.
HALF_OPEN = pytest.mark.parametrize("way", [UnixPath(), Stdio()], ids=lambda way: way.name)
