"""Notices that the other end of a socket is gone altogether, after it had only stopped writing.

An event loop no longer watches a stream that has ended, so nobody would hear of it before the next
write. Linux tells of a hang-up whether one asks for it or not: an epoll set with the socket and no
events in it becomes readable then, and that the loop can watch.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable


class HangupWatch:
    """Calls back once, when nobody can read any more what is written to a descriptor."""

    def __init__(self, fd: int, on_hangup: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_hangup = on_hangup
        self._epoll = select.epoll()
        self._epoll.register(fd, 0)
        self._loop.add_reader(self._epoll.fileno(), self._hung_up)

    def close(self) -> None:
        """Stop watching."""
        if not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _hung_up(self) -> None:
        self.close()
        self._on_hangup()
