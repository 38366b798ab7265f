"""Folders that backups and restores work in: they hold copies of databases, keys and passwords.

The process that works in a folder holds a lock on a file in it, which the kernel releases when that
process ends, however it ends. A folder that is not locked was left behind by a killed process; the
next process that works in the same place removes it. The lock is on a file because locks on folders
do not reach the other machines that share a network file system.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_LOCK = "lock"
#: How often a folder is made again that another process removed before it was locked.
_ATTEMPTS = 100
#: Errors of file systems without locks. Folders there are never removed as abandoned.
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class WorkingFolder:
    """A folder that only its owner can read, and its lock."""

    def __init__(self, parent: Path, prefix: str) -> None:
        """Make the folder; remove those with the same prefix that were left behind."""
        _remove_abandoned(parent, prefix)
        for _ in range(_ATTEMPTS):
            self.path = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
            try:
                self._lock: int | None = _lock(self.path)
            except (BlockingIOError, FileNotFoundError):
                # Another process removed it before it was locked.
                continue
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    shutil.rmtree(self.path, ignore_errors=True)
                    raise
                self._lock = None
            return
        raise FileNotFoundError(f"the folders made in {parent} disappear at once")

    def remove(self) -> None:
        """Remove the folder and release its lock. Calling it again does nothing."""
        try:
            shutil.rmtree(self.path, ignore_errors=True)
        finally:
            self.release()

    def release(self) -> None:
        """Release the lock and keep the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextlib.contextmanager
def working_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a folder for as long as the block lasts."""
    folder = WorkingFolder(parent, prefix)
    try:
        yield folder.path
    finally:
        folder.remove()


def _remove_abandoned(parent: Path, prefix: str) -> None:
    try:
        found = list(parent.iterdir())
    except OSError:
        # It may be a folder that can only be written to.
        return
    for path in found:
        # In a shared folder such as /tmp, other users may have folders with such names.
        with contextlib.suppress(OSError):
            if path.name.startswith(prefix) and path.lstat().st_uid == os.geteuid():
                lock = _lock(path)
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path) -> int:
    """Lock a folder; raises `OSError` if another process has locked or removed it."""
    file = folder / _LOCK
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_same = os.path.samestat(os.fstat(descriptor), file.lstat())
    except OSError:
        os.close(descriptor)
        raise
    if not is_same:
        os.close(descriptor)
        raise FileNotFoundError(file)
    return descriptor
