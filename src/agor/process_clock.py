"""Measures how long a process has had to answer, without the time it waited for a processor.

A time-out in wall-clock time takes a process for hung that is only starved: on a machine with more
work than processors it may get no more than a few milliseconds in a second. The kernel counts how
long each process was ready to run and did not (`/proc/PID/schedstat`); that time is not held
against it. A process that is stopped, sleeps or loops has no such excuse.

Nor is the time held against it in which we did not run ourselves: an answer that lies in our socket
since then would be read only after the time-out. So waits come in slices, and of each no more
counts than it should have taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agor.protocol.launching import Process

#: The longest that any time-out is stretched, so that every wait stays bounded.
MAX_STRETCH = 20
#: Seconds of one slice of a wait: at least, so that nobody waits busily, and at most.
_SHORTEST, _LONGEST = 0.05, 0.5


async def wait_for(process: Process | None, done: asyncio.Future[Any], timeout: float) -> bool:
    """Wait until something is done. False if the process had so many seconds, and it is not."""
    # Nearly always it is done before the clock would be started.
    await asyncio.wait((done,), timeout=min(timeout, _SHORTEST))
    if done.done():
        return True
    clock = ProcessClock(process)
    while not done.done():
        with clock.slice(timeout) as seconds:
            if not seconds:
                return False
            await asyncio.wait((done,), timeout=seconds)
    return True


class ProcessClock:
    """Seconds that a process has had since the clock was started."""

    def __init__(self, process: Process | None) -> None:
        """Start the clock. Without a process it is a plain clock."""
        self._process = process
        self._began = time.monotonic()
        self._delay = self._run_delay()
        #: Seconds by which our own waits took longer than they should have.
        self._late = 0.0

    def elapsed(self) -> float:
        """Return the seconds in which the process ran, slept or was stopped, while we ran."""
        passed = time.monotonic() - self._began
        starved = max(0.0, self._run_delay() - self._delay)
        return max(passed - starved - self._late, passed / MAX_STRETCH)

    @contextlib.contextmanager
    def slice(self, timeout: float) -> Iterator[float]:
        """Give the seconds to wait before the next look, 0 if the time is over."""
        left = timeout - self.elapsed()
        seconds = 0.0 if left <= 0 else min(max(left, _SHORTEST), _LONGEST)
        began = time.monotonic()
        try:
            yield seconds
        finally:
            self._late += max(0.0, time.monotonic() - began - seconds) if seconds else 0.0

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
