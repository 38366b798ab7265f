"""The writing half of a connection, for a feed: pieces go straight to the transport.

ASGI has one awaited message per piece; a feed has many readers of the same bytes. What it needs
instead is to write without waiting, to know when the other end does not keep up, and to be told
when that one does not read at all.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from agor.daemon.api.answers import Scope
from agor.errors import Disconnected, PeerStalled

_KEY = "agor.outlet"


class Outlet:
    """Writes to one transport. The transport's protocol tells it how the transport is."""

    # There may be thousands.
    __slots__ = (
        "_gone", "_lost", "_relief", "_stall_timeout", "_transport", "congested", "push",
        "when_congested",
    )  # fmt: skip

    def __init__(self, transport: asyncio.Transport, stall_timeout: float) -> None:
        self._transport = transport
        self._stall_timeout = stall_timeout
        #: The shortest way to write. After the end it may raise `RuntimeError`.
        self.push: Callable[[bytes], None] = transport.write
        #: Whether the other end reads more slowly than we write; and who wants to know.
        self.congested = False
        self.when_congested: Callable[[], None] | None = None
        self._lost = False
        self._relief = asyncio.Event()
        #: For who waits for the end of the connection; few do.
        self._gone: asyncio.Event | None = None

    @classmethod
    def of(cls, scope: Scope) -> Outlet:
        """Take the outlet of a request's connection; our own protocols put it there."""
        return cast("Outlet", scope[_KEY])

    def offer(self, scope: Scope) -> None:
        """Put it where the application finds it."""
        scope[_KEY] = self

    def write(self, data: bytes) -> None:
        """Write without waiting. After the end it does nothing."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self, stall_timeout: float | None = None) -> None:
        """Wait until the other end has read enough.

        Raises `PeerStalled` if it takes no byte for the stall time, `Disconnected` if it is gone.
        """
        patience = self._stall_timeout if stall_timeout is None else stall_timeout
        while self.congested and not self._lost:
            unsent = self._transport.get_write_buffer_size()
            try:
                async with asyncio.timeout(patience):
                    await self._relief.wait()
            except TimeoutError:
                if self._transport.get_write_buffer_size() == unsent:
                    raise PeerStalled(f"the client read nothing for {patience:g} s") from None
        if self._lost:
            raise Disconnected("the client is gone")

    async def wait_lost(self) -> None:
        """Wait until the connection is gone, also for who does not read from it."""
        if not self._lost:
            self._gone = self._gone or asyncio.Event()
            await self._gone.wait()

    def hold_little(self, size: int) -> None:
        """Have the kernel hold so many bytes for the other end, instead of megabytes.

        Then it is soon known how fast that one reads, and what is sent is soon seen.
        """
        end = self._transport.get_extra_info("socket")
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    def abort(self) -> None:
        """Drop the connection at once, with all that is unsent."""
        self._transport.abort()

    # ── what the protocol tells ──────────────────────────────────────────────────────────────

    def pause(self) -> None:
        """The transport holds more than it should."""
        self.congested = True
        self._relief.clear()
        if self.when_congested is not None:
            self.when_congested()

    def resume(self) -> None:
        """The transport can take more."""
        self.congested = False
        self._relief.set()

    def lose(self) -> None:
        """The connection is gone."""
        self._lost = True
        self._relief.set()
        if self._gone is not None:
            self._gone.set()
