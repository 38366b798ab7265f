"""Folders for the files that an agent's program needs while it runs; removed with the executor.

The process that makes a folder holds a lock on it, which the kernel releases when that process
ends, however it ends. So a folder that is not locked belongs to nobody, and any process of the same
Unix user may remove it. Keepers do that when their executor has ended, launchers when a keeper was
killed and when they start.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

#: How often a folder is made anew that was removed before it was locked.
_ATTEMPTS = 100


def scratch_root() -> Path:
    """Return the folder in which all scratch folders of this Unix user are."""
    return Path.home() / ".cache" / "agor" / "scratch"


class ScratchFolder:
    """A folder that lasts as long as this process, at most."""

    def __init__(self, prefix: str) -> None:
        root = scratch_root()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_abandoned()
        for _ in range(_ATTEMPTS):
            self.path = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=root))
            lock = _lock(self.path)
            if lock is not None:
                self._lock: int | None = lock
                return
        raise FileNotFoundError(f"the folders made in {root} disappear at once")

    def remove(self) -> None:
        """Remove the folder. Calling it again does nothing."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = None


def remove_abandoned() -> None:
    """Remove the scratch folders of this Unix user whose process has ended."""
    with contextlib.suppress(OSError):
        for path in list(scratch_root().iterdir()):
            lock = _lock(path)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


def _lock(path: Path) -> int | None:
    """Lock a folder; returns None if another process has locked or removed it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
