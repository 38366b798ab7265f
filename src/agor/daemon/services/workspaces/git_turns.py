"""Turns at git: one change at a time in a repository, and not too much at once altogether."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary

from agor.errors import Conflict
from agor.protocol.validation import quoted

_AT_ONCE = 8
#: Seconds that somebody waits for those before them.
_PATIENCE = 120.0


class GitTurns:
    """Who may run git now."""

    def __init__(self, at_once: int = _AT_ONCE, patience: float = _PATIENCE) -> None:
        self._room = asyncio.Semaphore(at_once)
        self._patience = patience
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Look at something; any number may at the same repository."""
        await self._wait(self._room, "git is busy for others")
        try:
            yield
        finally:
            self._room.release()

    @contextlib.asynccontextmanager
    async def changing(self, repository: str) -> AsyncIterator[None]:
        """Change a repository, alone: two changes at once would find each other's locks."""
        lock = self._locks.get(repository)
        if lock is None:
            lock = self._locks[repository] = asyncio.Lock()
        await self._wait(lock, f"the repository {quoted(repository)} is being changed by others")
        try:
            async with self.looking():
                yield
        finally:
            lock.release()

    async def _wait(self, turn: asyncio.Lock | asyncio.Semaphore, why: str) -> None:
        try:
            await asyncio.wait_for(turn.acquire(), self._patience)
        except TimeoutError:
            raise Conflict(why, hint="Try again in a while.") from None
