"""Processes that run out of something, as on a machine that is full."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path


@contextlib.contextmanager
def no_more_files(pid: int, *, but: int = 0) -> Iterator[None]:
    """Let a process open no more files, or just so many; those that it has open stay so."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (_free(pid, but), before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def _free(pid: int, place: int) -> int:
    """Find a number that no open file has, the lowest first: as the limit it is never given."""
    listed = list(Path(f"/proc/{pid}/fd").iterdir())
    # Of our own, the one with which they were listed is closed by now.
    used = {int(path.name) for path in listed if path.is_symlink()}
    free = (number for number in count() if number not in used)
    return next(islice(free, place, None))
