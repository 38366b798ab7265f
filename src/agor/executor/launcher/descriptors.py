"""Which descriptors a forked process keeps: a child must share none with its siblings."""

from __future__ import annotations

import os


def keep_only(wanted: set[int]) -> None:
    """Close every descriptor but these."""
    highest = max(wanted)
    for fd in range(highest):
        if fd not in wanted:
            _close(fd)
    os.closerange(highest + 1, os.sysconf("SC_OPEN_MAX"))


def _close(fd: int) -> None:
    os.closerange(fd, fd + 1)  # Does not mind one that is not open.
