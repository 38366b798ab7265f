"""Unix sockets: connect to one, bind one at a path, or inherit one that listens already."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from agor.errors import SocketInUse, SocketUnusable
from agor.rpc.limits import Limits
from agor.rpc.peer import Peer
from agor.rpc.routes import Routes

#: Longest path that fits into a socket address on Linux, without its final zero.
MAX_PATH = 107
_LOCK_WAIT = 5.0
_PROBE_WAIT = 1.0
_RETRY_WAIT = 0.01


async def connect(
    path: str | os.PathLike[str],
    routes: Routes,
    limits: Limits | None = None,
    timeout: float = 5.0,
) -> Peer:
    """Connect to a listening socket."""
    check_length(os.fspath(path))
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        async with asyncio.timeout(timeout):
            await _connect(sock, os.fspath(path))
    except TimeoutError:
        sock.close()
        raise SocketUnusable(f"{path} did not accept within {timeout:g} s") from None
    except OSError as error:
        sock.close()
        raise SocketUnusable(
            f"cannot connect to {path}: {error.strerror or error}",
            hint="Is an executor running there? Start one: agor-executor --socket PATH",
        ) from error
    loop = asyncio.get_running_loop()
    _, peer = await loop.create_unix_connection(lambda: Peer(routes, limits), sock=sock)
    return peer


async def _connect(sock: socket.socket, path: str) -> None:
    """Connect, or wait while the queue is full.

    A Unix socket connects at once or not at all. Event loops take "not now" for "under way", and
    asyncio would then take a socket that is not connected for one that is.
    """
    while True:
        try:
            sock.connect(path)
        except BlockingIOError:
            await asyncio.sleep(_RETRY_WAIT)
        else:
            return


def bind(path: str | os.PathLike[str]) -> BoundSocket:
    """Listen at a path, for this user only (0600).

    A socket that a dead process left behind is taken over; a living one is left alone.
    """
    target = Path(path)
    check_length(str(target))
    with _locked(target.parent):
        _clear_stale(target)
        return BoundSocket(listen_privately(target, socket.SOCK_STREAM), target)


def listen_privately(path: Path, kind: socket.SocketKind) -> socket.socket:
    """Make a listening socket that nobody else can open; nothing may be at its path."""
    listener = socket.socket(socket.AF_UNIX, kind)
    # The mask makes it private from its first moment; a chmod afterwards would come too late.
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise SocketUnusable(f"cannot bind {path}: {error.strerror}") from error
    finally:
        os.umask(mask)
    listener.listen(128)
    return listener


def inherit(fd: int) -> socket.socket:
    """Take over a listening socket that another process bound and handed down.

    It is moved out of the way of child processes, which else would inherit it, too, as their
    standard input if it came as fd 0.
    """
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    except (OSError, ValueError, OverflowError) as error:
        raise SocketUnusable(f"descriptor {fd} is not open: {error}") from error
    listener = _as_listener(moved, fd)
    if fd > 2:
        os.close(fd)
    else:
        empty = os.open(os.devnull, os.O_RDWR)
        os.dup2(empty, fd)
        os.close(empty)
    return listener


def take_over(fd: int) -> socket.socket:
    """Take over a listening socket that came over a socket, and is in nobody's way."""
    os.set_inheritable(fd, False)
    return _as_listener(fd, fd)


def _as_listener(fd: int, known_as: int) -> socket.socket:
    try:
        listener = socket.socket(fileno=fd)
    except OSError as error:
        os.close(fd)
        raise SocketUnusable(f"descriptor {known_as} is not a socket: {error.strerror}") from error
    listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if listener.family != socket.AF_UNIX or not listening:
        listener.close()
        raise SocketUnusable(f"descriptor {known_as} is not a listening Unix socket")
    return listener


class BoundSocket:
    """A listening socket and the path it was bound to, which goes when it goes."""

    def __init__(self, listener: socket.socket, path: Path) -> None:
        self.listener = listener
        self.path = path

    def remove(self) -> None:
        """Stop listening and unlink the path, unless somebody else has taken it meanwhile.

        Whether it is ours cannot be told by its inode, whose number may be used again; but once
        ours is closed, a socket that accepts is somebody else's.
        """
        self.listener.close()
        with contextlib.suppress(SocketUnusable), _locked(self.path.parent):
            _clear_stale(self.path)


def peer_uid(sock: socket.socket) -> int:
    """Tell the user at the other end of a connection; of a listening socket, its maker."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)


def check_length(path: str) -> None:
    """Refuse a path that does not fit into a socket address."""
    if len(os.fsencode(path)) > MAX_PATH:
        raise SocketUnusable(
            f"{path} is too long for a socket: {len(os.fsencode(path))} bytes, at most {MAX_PATH}",
            hint="Use a shorter folder, for example one below /run or /tmp.",
        )


def _clear_stale(path: Path) -> None:
    """Remove a socket that nobody serves; raise if somebody does, or if it is something else."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketUnusable(f"{path} exists and is not a socket", hint="Choose another path.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_WAIT)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except OSError as error:
            # Full backlog, no permission, no answer: alive for all we know.
            raise SocketInUse(f"{path} may be in use: {error.strerror or error}") from error
    raise SocketInUse(
        f"another process already serves {path}",
        hint="Choose another path, or stop the other process first.",
    )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time look at a folder's sockets and bind there.

    Else two that find the same stale socket at once would each remove it, the second one the
    first one's new socket.
    """
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise SocketUnusable(f"cannot open the folder {folder}: {error.strerror}") from error
    try:
        deadline = time.monotonic() + _LOCK_WAIT
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SocketUnusable(f"another process keeps {folder} locked") from None
                time.sleep(0.01)
        yield
    finally:
        os.close(fd)
