"""Our ends of a command's pipes: read and written when asked, so nothing is held in between.

Each is for one task at a time. Both give up waiting when the command has ended, because what it
left in the background may hold the other end for ever.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable

from agor.environments.commands import CommandInput
from agor.errors import EnvironmentFailed

_CHUNK = 64 * 1024


class PipeReader(AsyncIterator[bytes]):
    """What a command writes, until it closes the pipe or ends. It owns the descriptor."""

    def __init__(self, fd: int, ended: asyncio.Future[int], check_end: Callable[[], None]) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._ended = ended
        # Raises if the end is no proper one.
        self._check_end = check_end

    async def __anext__(self) -> bytes:
        # A fast writer must not keep the event loop to itself.
        await asyncio.sleep(0)
        while self._fd >= 0:
            ended = self._ended.done()
            try:
                data = os.read(self._fd, _CHUNK)
            except BlockingIOError:
                if not ended:
                    await self._readable()
                    continue
                data = b""
            if data:
                return data
            break
        self._check_end()
        raise StopAsyncIteration

    def close(self) -> None:
        """Give the descriptor up; whoever reads finds the end."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._fd, _wake, ready)
        try:
            await asyncio.wait((ready, self._ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Once closed, its number may be somebody else's.
            if self._fd >= 0:
                loop.remove_reader(self._fd)


class PipeWriter(CommandInput):
    """What a command reads. It owns the descriptor."""

    def __init__(self, fd: int, ended: asyncio.Future[int]) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._ended = ended
        self._turn = asyncio.Lock()

    async def write(self, data: bytes) -> None:
        """Write all of it, waiting for the command as often as needed."""
        async with self._turn:
            rest = memoryview(data)
            while rest:
                if self._fd < 0 or self._ended.done():
                    raise _reads_no_more()
                try:
                    rest = rest[os.write(self._fd, rest) :]
                except BlockingIOError:
                    await self._writable()
                except BrokenPipeError:
                    raise _reads_no_more() from None

    async def close(self) -> None:
        """Let the command read the end, once what is being written is written."""
        async with self._turn:
            self.abandon()

    def abandon(self) -> None:
        """Close at once; whoever writes finds the pipe broken."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._fd, _wake, ready)
        try:
            await asyncio.wait((ready, self._ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._fd >= 0:
                loop.remove_writer(self._fd)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _reads_no_more() -> EnvironmentFailed:
    return EnvironmentFailed("the command reads its input no more: it ended or closed it")
