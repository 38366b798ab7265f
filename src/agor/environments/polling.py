"""A watch that looks again and again, where nobody tells us of changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import structlog

from agor.environments.base import Change, OnChanges, Watch
from agor.environments.snapshots import Mark, differences
from agor.errors import AgorError, EnvironmentEnded, NoSuchFile

log = structlog.get_logger("agor.environments")

#: Seconds between two looks. A look that takes longer is followed by a pause as long as itself.
_PAUSE = 0.5


class PollingWatch(Watch):
    """Compares what `look` finds with what it found the last time."""

    def __init__(
        self, path: str, look: Callable[[], Awaitable[dict[str, Mark]]], callback: OnChanges
    ) -> None:
        self._path = path
        self._look = look
        self._callback = callback
        self._known: dict[str, Mark] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look for the first time; from then on, changes are told."""
        self._known = await self._look()
        self._task = asyncio.create_task(self._go_on())

    async def unwatch(self) -> None:
        """Stop looking."""
        if self._task:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _go_on(self) -> None:
        pause = _PAUSE
        complained = False
        while True:
            await asyncio.sleep(pause)
            started = time.monotonic()
            try:
                found = await self._look()
            except NoSuchFile:
                tell(self._callback, differences(self._known, {}))
                return
            except EnvironmentEnded:
                return
            except AgorError as error:
                if not complained:
                    log.warning("cannot look at a watched path", path=self._path, why=error.message)
                complained = True
            except Exception:
                log.exception("cannot look at a watched path", path=self._path)
            else:
                complained = False
                tell(self._callback, differences(self._known, found))
                self._known = found
            pause = max(_PAUSE, time.monotonic() - started)


def tell(callback: OnChanges, changes: Sequence[Change]) -> None:
    """Call back, if there is something to tell; the watch survives a callback that fails."""
    if not changes:
        return
    try:
        callback(changes)
    except Exception:
        log.exception("a callback for changes failed")
