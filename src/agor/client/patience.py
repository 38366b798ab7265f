"""How long to wait before trying again: longer every time, never long, and never in step."""

from __future__ import annotations

import asyncio
import random

_FIRST = 0.05
_LONGEST = 2.0
#: Seconds that a daemon may ask us to wait, at most.
_LONGEST_WISH = 10.0


class Patience:
    """The pauses between attempts at one thing."""

    def __init__(self) -> None:
        self._next = _FIRST

    async def pause(self, wish: float | None = None) -> None:
        """Wait a little, or as long as the daemon asked for."""
        pause, self._next = self._next, min(self._next * 2, _LONGEST)
        if wish is not None:
            pause = max(pause, min(wish, _LONGEST_WISH))
        # Many clients of one daemon that was restarted must not all come back at once.
        await asyncio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311 - nothing secret

    def reset(self) -> None:
        """It worked: the next trouble is another one."""
        self._next = _FIRST


def wish_of(retry_after: str | None) -> float | None:
    """Read a Retry-After header; dates are not used by the daemon and mean nothing here."""
    if retry_after is not None and retry_after.isascii() and retry_after.isdecimal():
        return float(retry_after[:9])
    return None
