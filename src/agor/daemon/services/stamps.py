"""Ids and times. Ids are UUIDv7: they sort by the time of their making."""

from __future__ import annotations

import os
import time
import uuid


def now() -> int:
    """Tell the time in milliseconds."""
    return time.time_ns() // 1_000_000


def new_id() -> str:
    """Make an id (RFC 9562, version 7)."""
    number = int.from_bytes(now().to_bytes(6, "big") + os.urandom(10), "big")
    number = number & ~(0xF000 << 64) | 0x7000 << 64
    number = number & ~(0xC000 << 48) | 0x8000 << 48
    return str(uuid.UUID(int=number))
