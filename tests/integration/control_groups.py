"""The control groups of a daemon that is gone: nobody else removes them, or ends who is in them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from agor.daemon.pool.limits import folder_name
from tests.integration.processes import PATIENCE

_ALL = Path("/sys/fs/cgroup")


def remove_groups(runtime: Path) -> None:
    """Remove those of the daemon with this runtime folder, wherever they are."""
    name = folder_name(runtime)
    # Others make and remove their own meanwhile, which `walk` does not mind.
    for base in [Path(above, name) for above, below, _ in os.walk(_ALL) if name in below]:
        deadline = time.monotonic() + PATIENCE
        while base.exists():
            _end_those_in(base)
            assert time.monotonic() < deadline, f"somebody stays in {base}"


def _end_those_in(base: Path) -> None:
    for folder, _, _ in os.walk(base, topdown=False):
        with contextlib.suppress(OSError):
            for pid in Path(folder, "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
