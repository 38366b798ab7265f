"""Hears of a keeper's end, whoever is its parent: through a pidfd, or by looking now and then."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import structlog

from agor.linux import is_alive
from agor.protocol.launching import Process

log = structlog.get_logger("agor.pool")

#: Seconds between two looks at a keeper that cannot be watched.
_LOOK_INTERVAL = 0.25


class KeeperWatch:
    """The watch over one keeper, from when it is known until it is gone or nobody cares."""

    def __init__(self, on_end: Callable[[], object]) -> None:
        self.gone = asyncio.Event()
        self._on_end = on_end
        self._pidfd: int | None = None
        self._looking: asyncio.Task[None] | None = None

    def begin(self, keeper: Process) -> None:
        """Watch it; if it is gone already, that is told at once."""
        try:
            self._pidfd = os.pidfd_open(keeper.pid)
            asyncio.get_running_loop().add_reader(self._pidfd, self._end)
            # The number may have been somebody else's by the time it was opened.
            alive = is_alive(keeper)
        except ProcessLookupError:
            alive = False
        except OSError as error:
            # Out of descriptors, it may be. It runs, and somebody must see its end.
            self.close()
            log.warning("watched_by_looking", pid=keeper.pid, why=error.strerror)
            self._looking = asyncio.create_task(self._look_at(keeper))
            return
        if not alive:
            self._end()

    def close(self) -> None:
        """Stop watching."""
        if self._looking is not None:
            self._looking.cancel()
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    async def _look_at(self, keeper: Process) -> None:
        while _may_live(keeper):  # noqa: ASYNC110 - there is no event of it
            await asyncio.sleep(_LOOK_INTERVAL)
        self._looking = None
        self._end()

    def _end(self) -> None:
        self.close()
        self.gone.set()
        self._on_end()


def _may_live(keeper: Process) -> bool:
    """Tell whether a keeper lives, or cannot be looked at now."""
    try:
        return is_alive(keeper)
    except OSError:
        return True
