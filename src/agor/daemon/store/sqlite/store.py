"""A store in an SQLite file: its parts, started and ended in order."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Sequence
from pathlib import Path

import structlog

from agor.daemon.store.base import Row, Statement, Write
from agor.daemon.store.line import Bounds, Line, Waiting, refuse
from agor.daemon.store.sqlite.checkpoints import Checkpoints
from agor.daemon.store.sqlite.file import DatabaseFile
from agor.daemon.store.sqlite.readers import Readers
from agor.daemon.store.sqlite.writer import Writer
from agor.errors import StoreError, StoreUnavailable

log = structlog.get_logger("agor.store")

#: How soon a thread that needs the interpreter gets it from a busy event loop. With Python's own
#: 5 ms the writer would wait that long several times for each group.
_SWITCH_SECONDS = 0.0005
#: How long `close` waits for what is in the line.
_FLUSH_SECONDS = 15.0
_CLOSED = "the database is closed"


class SqliteStore:
    """One file, one writing thread, a few reading ones."""

    def __init__(self, path: Path, bounds: Bounds | None = None) -> None:
        self._file = DatabaseFile(path)
        self._bounds = bounds or Bounds()
        self._open = False
        self._loop: asyncio.AbstractEventLoop
        self._line: Line
        self._writer: Writer
        self._readers: Readers
        self._checkpoints: Checkpoints
        self._writer_ended: asyncio.Future[None]
        self._switch_seconds = 0.0

    @property
    def available(self) -> bool:
        """Whether the last attempt to write was a success."""
        return self._open and self._writer.available

    async def open(self) -> None:
        """Open the file, bring the schema up to date, start the threads."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._claim)
        self._switch_seconds = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._writer_ended = self._loop.create_future()
        self._checkpoints = Checkpoints(self._file)
        self._writer = Writer(self._file, self._checkpoints, self._report, self._report_end)
        self._line = Line(self._bounds, self._writer.wake)
        self._readers = Readers(self._file)
        self._checkpoints.start()
        self._writer.start(self._line)
        self._open = True

    async def close(self) -> None:
        """Write what is waiting, end the threads, let go of the file."""
        if not self._open:
            return
        self._open = False
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._line.drain()
                self._writer.finish()
                await self._writer_ended
                await asyncio.to_thread(self._end_the_others)
            self._file.release()
        except TimeoutError:
            # A thread is stuck in the disk. It keeps the file locked until our process ends.
            log.error("store_not_flushed", writes=self._line.held_writes)
            self._line.abandon()
            self._writer.finish()
            self._end_the_others(wait=False)
        finally:
            sys.setswitchinterval(self._switch_seconds)

    def commit(self, write: Write) -> Awaitable[None]:
        """Make it durable, together with what others commit at this time."""
        if not self._open:
            return refuse(StoreUnavailable(_CLOSED))
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

    def _end_the_others(self, *, wait: bool = True) -> None:
        self._readers.close(wait=wait)
        self._checkpoints.close(wait=wait)

    def _report(self, group: list[Waiting], refused: dict[int, StoreError]) -> None:
        """Hand a group's results to the event loop. Called by the writer."""
        self._loop.call_soon_threadsafe(self._line.settle, group, refused)

    def _report_end(self) -> None:
        self._loop.call_soon_threadsafe(self._writer_ended.set_result, None)
