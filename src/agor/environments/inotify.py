"""inotify, the kernel's own word on what happens in folders. Python has no call for it.

A user may have few inotify instances (128 by default), so all watches of an event loop share one.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
import threading
from typing import ClassVar, Protocol
from weakref import WeakKeyDictionary

from agor.errors import EnvironmentFailed

MODIFY = 0x2
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
_OVERFLOW = 0x4000
_IGNORED = 0x8000
_ONLY_FOLDERS = 0x01000000
_DO_NOT_FOLLOW = 0x02000000
_NOT_THE_UNLINKED = 0x04000000

_WANTED = (
    MODIFY | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
    | _ONLY_FOLDERS | _NOT_THE_UNLINKED
)  # fmt: skip
_HEAD = struct.Struct("iIII")
_BUFFER = 256 * 1024

_libc = ctypes.CDLL(None, use_errno=True)


class Listener(Protocol):
    """Who wants to know."""

    def on_event(self, number: int, name: str) -> None:
        """Hear that something happened to a name in a folder, or to the folder if it is empty."""

    def on_overflow(self) -> None:
        """Hear that something happened, nobody knows where: too much happened at once."""


class Inotify:
    """One inotify instance. Folders are added and removed in any thread, events come on the loop.

    A folder has the same number for all listeners.
    """

    _of_loops: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, Inotify]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._listeners: dict[int, set[Listener]] = {}
        self._users = 0
        self._fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise EnvironmentFailed(
                f"cannot watch files: {os.strerror(ctypes.get_errno())}",
                hint="Raise fs.inotify.max_user_instances with sysctl, or watch less.",
            )
        self._loop.add_reader(self._fd, self._on_readable)

    @classmethod
    def acquire(cls) -> Inotify:
        """Get the one of this loop; whoever is done with it calls `release`."""
        loop = asyncio.get_running_loop()
        found = cls._of_loops.get(loop)
        if found is None:
            found = cls._of_loops[loop] = cls()
        found._users += 1
        return found

    def release(self) -> None:
        """Be done with it; the last one closes it."""
        self._users -= 1
        if self._users == 0:
            del self._of_loops[self._loop]
            self._loop.remove_reader(self._fd)
            os.close(self._fd)

    def add(self, folder: str, listener: Listener, *, follow: bool = False) -> int:
        """Listen to a folder; return its number. Raises OSError if that cannot be."""
        wanted = _WANTED if follow else _WANTED | _DO_NOT_FOLLOW
        with self._lock:
            number: int = _libc.inotify_add_watch(self._fd, os.fsencode(folder), wanted)
            if number < 0:
                code = ctypes.get_errno()
                if code == errno.ENOSPC:
                    raise EnvironmentFailed(
                        "cannot watch more folders: the limit of this user is reached",
                        hint="Raise fs.inotify.max_user_watches with sysctl, or watch less.",
                    )
                raise OSError(code, os.strerror(code), folder)
            self._listeners.setdefault(number, set()).add(listener)
            return number

    def remove(self, number: int, listener: Listener) -> None:
        """Listen no more to a folder."""
        with self._lock:
            listeners = self._listeners.get(number, set())
            listeners.discard(listener)
            if number in self._listeners and not listeners:
                del self._listeners[number]
                # It fails if the folder is gone, and the watch with it.
                _libc.inotify_rm_watch(self._fd, number)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._fd, _BUFFER)
        except BlockingIOError:
            return
        place = 0
        while place < len(data):
            number, mask, _, length = _HEAD.unpack_from(data, place)
            place += _HEAD.size
            name = data[place : place + length].rstrip(b"\0")
            place += length
            self._hand_on(number, mask, os.fsdecode(name))

    def _hand_on(self, number: int, mask: int, name: str) -> None:
        with self._lock:
            if mask & _OVERFLOW:
                everybody = set().union(*self._listeners.values())
            elif mask & _IGNORED:
                # The kernel dropped the watch, with its folder.
                self._listeners.pop(number, None)
                return
            else:
                everybody = set(self._listeners.get(number, ()))
        for listener in everybody:
            if mask & _OVERFLOW:
                listener.on_overflow()
            else:
                listener.on_event(number, name)
