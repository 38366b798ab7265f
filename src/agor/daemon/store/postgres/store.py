"""A store in a PostgreSQL database: its parts, started and ended in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import structlog

from agor.daemon.store.base import Row, Statement, Write
from agor.daemon.store.line import Bounds, Line, refuse
from agor.daemon.store.postgres import faults
from agor.daemon.store.postgres.readers import Readers
from agor.daemon.store.postgres.writer import Writer
from agor.errors import StoreError, StoreUnavailable

log = structlog.get_logger("agor.store")

#: How long `close` waits for what is in the line.
_FLUSH_SECONDS = 15.0
_CLOSED = "the database is closed"


class PostgresStore:
    """One connection that writes, a few that read."""

    def __init__(self, url: str, bounds: Bounds | None = None) -> None:
        self._url = url
        self._bounds = bounds or Bounds()
        self._open = False
        self._line: Line
        self._writer: Writer
        self._readers: Readers

    @property
    def available(self) -> bool:
        """Whether the last attempt to write was a success, and the server answers."""
        if not self._open:
            return False
        writer = self._writer
        return writer.outage is None and writer.stall is None and self._readers.answering

    @property
    def stall(self) -> StoreUnavailable | None:
        """Why nobody should wait for a commit that is under way."""
        return self._writer.stall if self._open else None

    async def open(self) -> None:
        """Connect, lock other daemons out, bring the schema up to date."""
        writer, readers = Writer(self._url), Readers(self._url)
        try:
            await writer.open()
            try:
                await readers.open()
            except BaseException:
                await writer.close()
                raise
        except StoreError:
            raise
        except Exception as error:
            raise faults.unusable(error) from error
        self._writer, self._readers = writer, readers
        self._line = Line(self._bounds, writer.wake)
        writer.start(self._line)
        self._open = True

    async def close(self) -> None:
        """Write what is waiting, and disconnect."""
        if not self._open:
            return
        self._open = False
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._line.drain()
        except TimeoutError:
            log.error("store_not_flushed", writes=self._line.held_writes)
        await self._writer.close()
        self._line.abandon()
        await self._readers.close()

    def commit(self, write: Write) -> Awaitable[None]:
        """Make it durable, together with what others commit at this time."""
        if not self._open:
            return refuse(StoreUnavailable(_CLOSED))
        if (error := self._writer.outage or self._writer.stall) is not None:
            return refuse(error.again())
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
