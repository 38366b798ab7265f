"""One connection on two descriptors, usually standard input and output.

The descriptors may be pipes, files or a terminal. Two threads copy between them and a socket, with
blocking reads and writes: files cannot be waited on by an event loop, and making an inherited pipe
or terminal non-blocking would change it for whoever shares it. The peer sees an ordinary socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Callable

from agor.rpc.peer import Peer

_CHUNK = 64 * 1024


def take_standard_streams() -> tuple[int, int]:
    """Move fds 0 and 1 out of everybody else's reach, and return where they are now.

    Standard input becomes empty and standard output becomes standard error, so that no `print` and
    no child process can disturb the wire.
    """
    reading, writing = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return reading, writing


class StdioConnection:
    """A peer that speaks through two descriptors, which it owns."""

    def __init__(self, peer: Peer, outgoing: threading.Thread) -> None:
        self.peer = peer
        self._outgoing = outgoing

    @classmethod
    async def open(
        cls, reading: int, writing: int, make_peer: Callable[[], Peer]
    ) -> StdioConnection:
        """Start to speak."""
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        _, peer = await loop.create_unix_connection(make_peer, sock=ours)
        # The incoming one may sit in a read for ever, so nobody waits for it.
        threading.Thread(target=_copy_in, args=(reading, theirs), daemon=True).start()
        outgoing = threading.Thread(target=_copy_out, args=(theirs, writing), daemon=True)
        outgoing.start()
        return cls(peer, outgoing)

    async def close(self, timeout: float = 5.0) -> None:
        """Close, once everything that was said is through the descriptor."""
        await self.peer.close()
        await asyncio.to_thread(self._outgoing.join, timeout)


def _copy_in(reading: int, sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(reading, _CHUNK):
            sock.sendall(data)
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
    os.close(reading)


def _copy_out(sock: socket.socket, writing: int) -> None:
    with contextlib.suppress(OSError):
        while data := sock.recv(_CHUNK):
            view = memoryview(data)
            while view:
                view = view[os.write(writing, view) :]
    # Nobody reads any more, or nothing is left to say: tell the peer, in either case.
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    os.close(writing)
