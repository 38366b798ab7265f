"""Accepts connections on a listening Unix socket and makes a peer of each.

Only the user who made the listening socket may connect, and root. The kernel remembers who called
`listen`, so this holds for an inherited socket too, without anybody passing a uid along.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable

import structlog

from agor.errors import Overloaded, RpcError, TokenRefused
from agor.protocol.envelope import encode_lines, failure
from agor.rpc.hangup import HangupWatch
from agor.rpc.peer import Peer
from agor.rpc.unix import peer_uid

log = structlog.get_logger("agor.rpc")

#: Why a connection may not be had now: it is gone again, or we have no descriptor or memory left.
_PASSING = {errno.ECONNABORTED, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PASSING_WAIT = 0.1


class Listener:
    """The connections of one listening socket, bounded in number."""

    def __init__(
        self, sock: socket.socket, make_peer: Callable[[], Peer], max_connections: int = 64
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._make_peer = make_peer
        self._max_connections = max_connections
        self._allowed = {0, peer_uid(sock)}
        self._peers: dict[Peer, asyncio.Task[None]] = {}
        self._accepting = asyncio.create_task(self._accept())
        # If who made the socket shuts it down, accepting would be tried again and again.
        self._hangup = HangupWatch(sock.fileno(), self._accepting.cancel)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._peers)

    async def close(self) -> None:
        """Accept no more, close what is open, and free the socket."""
        self._hangup.close()
        self._accepting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._accepting
        self._sock.close()
        watchers = list(self._peers.values())
        await asyncio.gather(*(peer.close() for peer in list(self._peers)))
        await asyncio.gather(*watchers)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._sock)
            except OSError as error:
                if error.errno in _PASSING:
                    log.warning("cannot_accept", why=error.strerror)
                    await asyncio.sleep(_PASSING_WAIT)
                    continue
                log.error("accepts_no_more", why=error.strerror)
                return
            if self._refused(connection):
                continue
            try:
                peer = self._make_peer()
                await loop.connect_accepted_socket(lambda peer=peer: peer, connection)  # type: ignore[misc]
            except Exception:
                # One that cannot be served must not end the accepting of others.
                log.exception("cannot_serve")
                connection.close()
            else:
                self._peers[peer] = loop.create_task(self._watch(peer))

    async def _watch(self, peer: Peer) -> None:
        ending = await peer.wait_closed()
        del self._peers[peer]
        log.debug("connection_ended", code=ending.code, why=ending.message)

    def _refused(self, connection: socket.socket) -> bool:
        error: RpcError
        uid = peer_uid(connection)
        if uid not in self._allowed:
            error = TokenRefused("this socket belongs to another user")
            log.warning("connection_refused", uid=uid)
        elif len(self._peers) >= self._max_connections:
            error = Overloaded(f"{self._max_connections} connections are open already")
        else:
            return False
        with connection, contextlib.suppress(OSError):
            connection.send(encode_lines([failure(None, error)]))
        return True
