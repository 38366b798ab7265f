"""Agents' programs that every Unix user can run: the tests' own may lie below /root."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from functools import cache
from pathlib import Path

_CACHE = Path("/var/cache/agor-tests")


@cache
def agents_for_everybody() -> Path:
    """Give the folder of the installed agents, or a copy of it where it cannot be reached."""
    folder = Path(os.environ["AGOR_AGENTS"])
    if all(parent.stat().st_mode & stat.S_IXOTH for parent in (folder, *folder.parents)):
        return folder
    copy = _CACHE / "agents"
    _CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (_CACHE / "agents.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not copy.exists() or copy.stat().st_mtime < folder.stat().st_mtime:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(folder, copy, symlinks=True)
    return copy
