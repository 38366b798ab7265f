"""Which descriptors a forked process keeps: a child must share none with its siblings."""

from __future__ import annotations

import os


def keep_only(wanted: set[int]) -> None:
    """Close every descriptor but these."""
    first = 0
    for fd in sorted(wanted):
        if fd > first:
            os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
