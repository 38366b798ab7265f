"""Files and folders that belong to us alone, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from agor.errors import BadInput

#: What others may not do: nothing at all; or look, but change nothing.
MINE_ALONE = 0o077
MINE_TO_WRITE = 0o022
_LOCK_INTERVAL = 0.01


@contextlib.contextmanager
def telling(path: Path) -> Iterator[None]:
    """Say in words which file could not be written, why, and what to do."""
    try:
        yield
    except OSError as error:
        raise BadInput(
            f"cannot write {path}: {error.strerror}", hint=what_to_do(error, path.parent)
        ) from error


def what_to_do(error: OSError, folder: Path) -> str | None:
    """Suggest what helps against an error in a folder of AGOR_HOME; none if nothing is known."""
    match error.errno:
        case errno.EROFS:
            return (
                f"The file system of {folder} is mounted read-only: mount it read-write, or set "
                "AGOR_HOME to a folder that can be written."
            )
        case errno.EACCES | errno.EPERM:
            return (
                f"The user with the id {os.geteuid()} may not write there: change the owner or the "
                "mode of the folder, or set AGOR_HOME to a folder of yours."
            )
        case errno.ENOSPC | errno.EDQUOT:
            return f"The file system of {folder} is full: free some space."
        case errno.ENOTDIR | errno.EEXIST:
            return f"{folder}, or a part of its path, is a file: set AGOR_HOME to a folder."
    return None


def open_to_write(path: Path, flags: int = os.O_RDWR) -> int:
    """Open a file to change it, and make it if there is none; only its owner can read it."""
    with telling(path):
        return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)


def write(path: Path, data: bytes) -> None:
    """Replace a file whole or not at all, whatever fails; only its owner can read it.

    Callers hold a lock: two at once would write the same file beside it.
    """
    fresh = path.with_name(f".{path.name}.new")
    with telling(path):
        fresh.unlink(missing_ok=True)
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(fd)
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def locked_within(fd: int, seconds: float) -> bool:
    """Take the lock on an open file for ourselves; False if others keep it for so long."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOCK_INTERVAL)
        else:
            return True


def make_folder(folder: Path, forbidden: int = MINE_ALONE) -> None:
    """Have a folder of ours; `forbidden` has what others may not do in it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise BadInput(
            f"cannot make the folder {folder}: {error.strerror}",
            hint=what_to_do(error, folder) or "Set AGOR_HOME to a folder of yours.",
        ) from error
    if found.st_uid != os.geteuid():
        raise BadInput(
            f"{folder} belongs to another user", hint="Set AGOR_HOME to a folder of yours."
        )
    if stat.S_IMODE(found.st_mode) & forbidden:
        raise BadInput(
            f"others could enter or change {folder}",
            hint=f"Set AGOR_HOME to a folder of yours; or, if this one is: chmod 700 {folder}",
        )


def sync_folder(folder: Path) -> None:
    """Make sure that names in a folder outlive a power failure."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
