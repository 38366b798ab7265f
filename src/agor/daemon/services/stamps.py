"""Ids, times and durations, for a machine whose clock may be set back.

- `now` is the time of day. It decides what has expired, and nothing else depends on its order.
- Ids are UUIDv7 and sort in the order in which they were made: the time in an id never decreases,
  not even across a restart (`Ids.begin_after`). `created_at` of a row is the time in its id, so
  lists that sort by it are in the order of creation.
- A `Stopwatch` measures how long something took on a clock that nobody sets, and that goes on while
  the machine is suspended.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable

#: Random digits for the ids to come, sixteen each: the system is asked once for many.
_digits: list[str] = []
_AT_ONCE = 256
#: Ids that can be made in one millisecond; then the next one is used.
_MOST_AT_ONCE = 0x1000


def now() -> int:
    """Return the time of day in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def not_before(moment: int) -> int:
    """Return the time of day, or a moment that was before it if the clock has been set back."""
    return max(now(), moment)


def _since_boot() -> int:
    """Return milliseconds since the machine was started; those in which it slept count too."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class Stopwatch:
    """Measures the time since a moment, whatever happens to the time of day meanwhile."""

    def __init__(self, start: int) -> None:
        """Begin at a moment that is now, or was before this process began to measure."""
        self._start = start
        self._began = _since_boot() - max(0, now() - start)

    def now(self) -> int:
        """Return the moment that is now: the start and the time that has passed since."""
        return self._start + _since_boot() - self._began


class Ids:
    """Makes ids (RFC 9562, version 7) that sort in the order in which they were made."""

    def __init__(self, clock: Callable[[], int] = now) -> None:
        self._clock = clock
        self._time = 0
        #: Ids that were made with this time.
        self._count = 0

    def begin_after(self, ids: Iterable[str]) -> None:
        """Make only ids that sort behind these."""
        for each in ids:
            # An id that is none of ours sorts anywhere.
            with contextlib.suppress(ValueError):
                if time_of(each) >= self._time:
                    self._time, self._count = time_of(each) + 1, 0

    def new(self) -> str:
        """Make an id."""
        at = self._clock()
        if at > self._time:
            self._time, self._count = at, 0
        elif self._count == _MOST_AT_ONCE:
            self._time, self._count = self._time + 1, 0
        made, digits = f"{self._time:012x}", _sixteen_digits()
        count, variant = self._count, "89ab"[int(digits[0], 16) & 3]
        self._count += 1
        return f"{made[:8]}-{made[8:]}-7{count:03x}-{variant}{digits[1:4]}-{digits[4:]}"


def time_of(made: str) -> int:
    """Return the time in an id: when it was made, and never before that of an earlier id."""
    return int(made[:8] + made[9:13], 16)


#: The ids of this process.
ids = Ids()
new_id = ids.new


def _sixteen_digits() -> str:
    try:
        return _digits.pop()
    except IndexError:
        drawn = os.urandom(8 * _AT_ONCE).hex()
        _digits.extend(drawn[at : at + 16] for at in range(0, len(drawn), 16))
        return _digits.pop()
