"""One connection on two descriptors, usually standard input and output.

The descriptors may be pipes, files or a terminal. Two threads copy between them and a socket, with
blocking reads and writes: files cannot be waited on by an event loop, and making an inherited pipe
or terminal non-blocking would change it for whoever shares it. The peer sees an ordinary socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
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
        # Each has the socket for itself, so that neither closes it under the other's hands.
        outgoing = threading.Thread(target=_copy_out, args=(theirs.dup(), writing), daemon=True)
        outgoing.start()
        threading.Thread(
            target=_copy_in, args=(reading, theirs, outgoing), daemon=True, name="stdio-in"
        ).start()
        return cls(peer, outgoing)

    async def close(self, timeout: float = 5.0) -> None:
        """Close, once everything that was said is through the descriptor."""
        await self.peer.close()
        await asyncio.to_thread(self._outgoing.join, timeout)


def _copy_in(reading: int, sock: socket.socket, outgoing: threading.Thread) -> None:
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    poll.register(sock, select.POLLRDHUP)  # the peer is closed, or nobody hears its answers
    with sock, contextlib.suppress(OSError):
        # What was said before the speaker left is still brought to the peer.
        while any(fd == reading for fd, _ in poll.poll()) and (data := os.read(reading, _CHUNK)):
            sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
    # Whoever finds that we no longer read takes us for gone: not before all is said.
    outgoing.join()
    os.close(reading)


def _copy_out(sock: socket.socket, writing: int) -> None:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    poll.register(writing, 0)  # that nobody reads it any more is told unasked
    with contextlib.suppress(OSError):
        while all(fd != writing for fd, _ in poll.poll()) and (data := sock.recv(_CHUNK)):
            view = memoryview(data)
            while view:
                view = view[os.write(writing, view) :]
    # From now on the peer's writes fail, and the other thread knows.
    with sock, contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RD)
    os.close(writing)
