"""Measures how long a process has had to answer, without the time it waited for a processor.

A time-out in wall-clock time takes a process for hung that is only starved: on a machine with more
work than processors it may get no more than a few milliseconds in a second. The kernel counts how
long each process was ready to run and did not (`/proc/PID/schedstat`); that time is not held
against it. A process that is stopped, sleeps or loops has no such excuse.
"""

from __future__ import annotations

import time
from pathlib import Path

from agor.protocol.launching import Process

#: The longest that any time-out is stretched, so that every wait stays bounded.
MAX_STRETCH = 20


class ProcessClock:
    """Seconds that a process has had since the clock was started."""

    def __init__(self, process: Process | None) -> None:
        """Start the clock. Without a process it is a plain clock."""
        self._process = process
        self._began = time.monotonic()
        self._delay = self._run_delay()

    def elapsed(self) -> float:
        """Return the seconds in which the process ran, slept or was stopped."""
        passed = time.monotonic() - self._began
        starved = max(0.0, self._run_delay() - self._delay)
        return max(passed - starved, passed / MAX_STRETCH)

    def _run_delay(self) -> float:
        """Read how long the process has waited for a processor in its life, in seconds."""
        if self._process is None:
            return 0.0
        try:
            fields = Path(f"/proc/{self._process.pid}/schedstat").read_bytes().split()
            return int(fields[1]) / 1e9
        except (OSError, IndexError, ValueError):
            # It is gone, or the kernel does not count.
            return 0.0
