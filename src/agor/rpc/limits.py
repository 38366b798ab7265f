"""The bounds of one connection, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Every bound of one connection. Both ends should agree on `max_line`."""

    #: Bytes of one line. A longer one is answered with a parse error and skipped.
    max_line: int = 16 * 1024 * 1024
    #: Requests under way at once, in each direction. One more is refused as overloaded.
    max_in_flight: int = 256
    #: Messages of one batch. Without it a small line could ask for a huge answer.
    max_batch: int = 1000
    #: Bytes waiting to be written past which a sender that does not wait is refused.
    max_unsent: int = 64 * 1024 * 1024
    #: Seconds without a byte taken by the other end after which it counts as stalled.
    stall_timeout: float = 60.0
    #: Seconds that an orderly close may take.
    close_timeout: float = 5.0
