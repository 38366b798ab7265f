"""Accepts connections on a listening Unix socket and makes a peer of each.

Only the user who made the listening socket may connect, and root. The kernel remembers who called
`listen`, so this holds for an inherited socket too, without anybody passing a uid along.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import select
import socket
from collections.abc import Callable

import structlog

from agor.errors import Disconnected, Overloaded, RpcError, TokenRefused
from agor.protocol.envelope import encode_lines, failure
from agor.rpc.peer import Peer
from agor.rpc.unix import peer_uid

log = structlog.get_logger("agor.rpc")

#: Why a connection may not be had now: it is gone again, or we have no descriptor or memory left.
_PASSING = {errno.ECONNABORTED, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PASSING_WAIT = 0.1
#: Seconds in which one who had connected before us should be answered.
_FIRST_WAIT = 0.005


class Listener:
    """The connections of one listening socket, bounded in number."""

    def __init__(
        self, sock: socket.socket, make_peer: Callable[[], Peer], max_connections: int = 64
    ) -> None:
        sock.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._make_peer = make_peer
        self._max_connections = max_connections
        self._allowed = {0, peer_uid(sock)}
        self._peers: set[Peer] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        # Whoever asked for us may have connected already: it is served before anybody else.
        if self._accept():
            self._pause = self._loop.call_later(_FIRST_WAIT, self._resume)
        else:
            self._resume()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._peers)

    async def close(self, grace: float = 0.0) -> None:
        """Accept no more, close what is open, and free the socket.

        Handlers have `grace` to end by themselves, so that their answers are written.
        """
        self._stop_accepting()
        self._sock.close()
        if self._connecting:
            await asyncio.wait(self._connecting)
        await asyncio.gather(*(peer.finish(grace) for peer in list(self._peers)))

    # ── accepting ────────────────────────────────────────────────────────────────────────────

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._sock.fileno(), self._on_readable)

    def _stop_accepting(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())

    def _on_readable(self) -> None:
        """Take one connection; the loop calls again while there are more."""
        try:
            if self._accept() or not _is_shut_down(self._sock):
                return
            # Who made it did that to it. It would be readable, and empty, for ever.
            why = "the socket was shut down"
        except OSError as error:
            why = str(error.strerror)
        self._stop_accepting()
        log.error("accepts_no_more", why=why)

    def _accept(self) -> bool:
        """Take one connection, if one is there."""
        try:
            connection, _ = self._sock.accept()
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _PASSING:
                raise
            log.warning("cannot_accept", why=error.strerror)
            self._stop_accepting()
            self._pause = self._loop.call_later(_PASSING_WAIT, self._resume)
            return True
        if not self._refused(connection):
            self._serve(connection)
        return True

    def _serve(self, connection: socket.socket) -> None:
        try:
            peer = self._make_peer()
        except Exception:
            # One that cannot be served must not end the accepting of others.
            log.exception("cannot_serve")
            connection.close()
            return
        self._peers.add(peer)
        peer.when_closed(lambda ending: self._forget(peer, ending))
        task = self._loop.create_task(self._connect(peer, connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, peer: Peer, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: peer, connection)
        except Exception:
            log.exception("cannot_serve")
            connection.close()
            await peer.close()

    def _forget(self, peer: Peer, ending: Disconnected) -> None:
        self._peers.discard(peer)
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
        # Not at once: who has just connected may be about to ask, and then would not read this.
        self._loop.call_soon(_turn_away, connection, error)
        return True


def _is_shut_down(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    return bool(poll.poll(0))


def _turn_away(connection: socket.socket, error: RpcError) -> None:
    with connection, contextlib.suppress(OSError):
        connection.setblocking(False)
        connection.send(encode_lines([failure(None, error)]))
