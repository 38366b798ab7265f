"""A store in an SQLite file: its parts, started and ended in order.

Reading is done by threads, writing by a process: see `scribe`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Sequence
from pathlib import Path

import structlog

from agor.daemon.store.base import Row, Statement, Write
from agor.daemon.store.line import Bounds, Line, refuse
from agor.daemon.store.sqlite.file import DatabaseFile
from agor.daemon.store.sqlite.readers import Readers
from agor.daemon.store.sqlite.scribe import Scribe
from agor.daemon.store.sqlite.upkeep import Upkeep
from agor.errors import StoreUnavailable

log = structlog.get_logger("agor.store")

#: How soon a thread that needs the interpreter gets it from a busy event loop. With Python's own
#: 5 ms a reader would wait that long several times for each question.
_SWITCH_SECONDS = 0.0005
#: How long `close` waits for what is in the line.
_FLUSH_SECONDS = 15.0
_CLOSED = "the database is closed"


class SqliteStore:
    """One file, one process that writes, a few threads that read."""

    def __init__(
        self, path: Path, bounds: Bounds | None = None, upkeep: Upkeep | None = None
    ) -> None:
        self._file = DatabaseFile(path, upkeep)
        self._bounds = bounds or Bounds()
        self._open = False
        self._line: Line
        self._scribe: Scribe
        self._readers: Readers
        self._switch_seconds = 0.0

    @property
    def available(self) -> bool:
        """Whether the last attempt to write was a success, and questions are answered."""
        return self._open and self._scribe.available and self._readers.answering

    @property
    def stall(self) -> StoreUnavailable | None:
        """Why nobody should wait for a commit that is under way."""
        return self._scribe.stall if self._open else None

    async def open(self) -> None:
        """Open the file, bring the schema up to date, start the process and the threads."""
        await asyncio.to_thread(self._claim)
        self._scribe = Scribe(self._file)
        try:
            await self._scribe.open()
        except BaseException:
            self._file.release()
            raise
        self._switch_seconds = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._line = Line(self._bounds, self._scribe.wake)
        self._readers = Readers(self._file)
        self._scribe.start(self._line)
        self._open = True

    async def close(self) -> None:
        """Write what is waiting, end the process and the threads, let go of the file."""
        if not self._open:
            return
        self._open = False
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._line.drain()
                await self._scribe.close()
                await asyncio.to_thread(self._readers.close, wait=True)
            self._file.release()
        except TimeoutError:
            # Somebody is stuck in the disk, and keeps the file locked until the disk comes back.
            log.error("store_not_flushed", writes=self._line.held_writes)
            self._line.abandon()
            await self._scribe.abandon()
            self._readers.close(wait=False)
        finally:
            sys.setswitchinterval(self._switch_seconds)

    def commit(self, write: Write) -> Awaitable[None]:
        """Make it durable, together with what others commit at this time."""
        if not self._open:
            return refuse(StoreUnavailable(_CLOSED))
        if (stall := self._scribe.stall) is not None:
            return refuse(stall.again())
        return self._line.add(write).done

    async def read(self, sql: str, values: Row = ()) -> list[Row]:
        """Ask one question."""
        self._refuse_if_closed()
        return await self._readers.read(sql, values)

    async def snapshot(self, questions: Sequence[Statement]) -> list[list[Row]]:
        """Ask several questions of one and the same moment."""
        self._refuse_if_closed()
        return await self._readers.snapshot(questions)

    async def events(
        self, session_number: int, after: int, limit_rows: int, limit_bytes: int
    ) -> list[tuple[int, bytes]]:
        """Read a page of a feed."""
        self._refuse_if_closed()
        return await self._readers.events(session_number, after, limit_rows, limit_bytes)

    def _refuse_if_closed(self) -> None:
        if not self._open:
            raise StoreUnavailable(_CLOSED)

    def _claim(self) -> None:
        self._file.claim()
        try:
            self._file.prepare()
        except BaseException:
            self._file.release()
            raise
