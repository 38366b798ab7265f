"""A WebSocket of the daemon that is opened again after a cut or a restart, as if there were none.

What it carries, and from where on, is for those to say who are one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from abc import ABC, abstractmethod
from typing import Self
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

import agor
from agor.client.address import Address, Find, check_unchanged
from agor.client.calls import no_answer
from agor.client.patience import Patience, wish_of
from agor.client.problems import revive
from agor.errors import AgorError, DaemonNotRunning, Disconnected

#: Messages that were read from the socket and not asked for; then reading stops.
_MOST_WAITING = 16
_OPEN_TIMEOUT = 10.0
_PING_INTERVAL = 20.0
#: An answer to a ping may lie behind all that we did not read yet.
_PING_TIMEOUT = 60.0
_CLOSE_TIMEOUT = 1.0
#: A connection that lived for so many seconds was a good one.
_GOOD_LIFE = 10.0
_UNAVAILABLE = 503

# With the library's own logger at `debug`, the token would be in the log.
_logger = logging.getLogger("agor.client.sockets")
_logger.setLevel(logging.WARNING)


class ReconnectingSocket(ABC):
    """Close it, or use `async with`."""

    #: What it is called where it is told that it was cut.
    what: str
    #: The longest message that may come.
    longest: int

    def __init__(self, find: Find, reconnect_timeout: float | None) -> None:
        self._find = find
        self._reconnect_timeout = reconnect_timeout
        self._socket: ClientConnection | None = None
        self._opening = asyncio.Lock()
        #: Set while there is no connection.
        self._dropped = asyncio.Event()
        self._opened_at = 0.0
        self._patience = Patience()
        #: Since when nothing works.
        self._in_trouble_since: float | None = None
        self._closed = False

    @abstractmethod
    def _address(self) -> str:
        """Tell the path and the query to ask for now."""

    @abstractmethod
    def _why_over(self, code: int) -> AgorError | None:
        """Say why there is nothing to come back to after this close code, if there is not."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up for good. Whoever waits for something gets no more."""
        self._closed = True
        socket, self._socket = self._socket, None
        self._dropped.set()
        if socket is not None:
            await socket.close()

    def __del__(self) -> None:
        # Of a loop that was left without closing; we may be in any thread here.
        if self._socket is not None:
            with contextlib.suppress(RuntimeError):
                self._socket.loop.call_soon_threadsafe(self._socket.transport.abort)

    # ── connections ──────────────────────────────────────────────────────────────────────────

    async def _connected(self) -> ClientConnection:
        """Give the present connection, or a new one."""
        async with self._opening:
            if self._socket is None:
                self._socket = await self._open()
                self._opened_at = time.monotonic()
                self._dropped.clear()
            return self._socket

    async def _open(self) -> ClientConnection:
        while True:
            wish = None
            try:
                address = self._find()
                return await self._connect(address)
            except DaemonNotRunning as error:
                told: AgorError = error
            except InvalidStatus as refusal:
                status, headers = refusal.response.status_code, refusal.response.headers
                told = revive(status, bytes(refusal.response.body or b""))
                wish = wish_of(headers.get("Retry-After"))
                if status != _UNAVAILABLE:
                    raise told from None
            except (OSError, InvalidHandshake, ConnectionClosed):
                # The last of these in the midst of the handshake.
                told = no_answer(address)
            await self._wait(told, wish)

    async def _connect(self, address: Address) -> ClientConnection:
        sock = None if address.daemon is None else await self._reach(address)
        return await connect(
            f"{address.websocket_url}{self._address()}",
            additional_headers=address.headers,
            user_agent_header=f"agor-client/{agor.__version__}",
            compression=None,
            proxy=None,
            sock=sock,
            open_timeout=_OPEN_TIMEOUT,
            ping_interval=_PING_INTERVAL,
            ping_timeout=_PING_TIMEOUT,
            close_timeout=_CLOSE_TIMEOUT,
            max_size=self.longest,
            max_queue=_MOST_WAITING,
            logger=_logger,
        )

    async def _reach(self, address: Address) -> socket.socket:
        """Connect to the daemon of this machine, and make sure that it is the other end."""
        place = urlsplit(address.url)
        host = place.hostname or ""
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            sock.setblocking(False)
            async with asyncio.timeout(_OPEN_TIMEOUT):
                await asyncio.get_running_loop().sock_connect(sock, (host, place.port))
            check_unchanged(address, self._find)
        except BaseException:
            sock.close()
            raise
        return sock

    async def _come_back(self, cut: ConnectionClosed) -> None:
        """Decide what a cut means: wait before the next connection, or the end."""
        self._socket = None
        self._dropped.set()
        if self._closed:
            return
        if cut.rcvd is not None and (over := self._why_over(cut.rcvd.code)) is not None:
            raise over
        if time.monotonic() - self._opened_at > _GOOD_LIFE:
            self._recover()
        why = cut.rcvd.reason if cut.rcvd is not None and cut.rcvd.reason else "connection lost"
        await self._wait(Disconnected(f"{self.what} was cut ({why})"), None)

    async def _wait(self, trouble: AgorError, wish: float | None) -> None:
        now = time.monotonic()
        since = self._in_trouble_since = self._in_trouble_since or now
        if self._reconnect_timeout is not None and now - since > self._reconnect_timeout:
            # Whoever asks again gets another try, as long as this one.
            self._recover()
            raise trouble
        await self._patience.pause(wish)

    def _recover(self) -> None:
        self._patience.reset()
        self._in_trouble_since = None
