"""Ids and times. Ids are UUIDv7: they sort by the time of their making."""

from __future__ import annotations

import os
import time

#: Random digits for the ids to come, twenty each: the system is asked once for many.
_digits: list[str] = []
_AT_ONCE = 256


def now() -> int:
    """Tell the time in milliseconds."""
    return time.time_ns() // 1_000_000


def new_id() -> str:
    """Make an id (RFC 9562, version 7)."""
    made = f"{now():012x}"
    digits = _twenty_digits()
    variant = "89ab"[int(digits[3], 16) & 3]
    return f"{made[:8]}-{made[8:]}-7{digits[:3]}-{variant}{digits[4:7]}-{digits[7:19]}"


def _twenty_digits() -> str:
    try:
        return _digits.pop()
    except IndexError:
        drawn = os.urandom(10 * _AT_ONCE).hex()
        _digits.extend(drawn[at : at + 20] for at in range(0, len(drawn), 20))
        return _digits.pop()
