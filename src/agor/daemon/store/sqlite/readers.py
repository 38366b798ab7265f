"""Reading from SQLite: a few threads with a connection each. They see what is committed."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from agor.daemon.store.base import Row, Statement
from agor.daemon.store.sqlite import faults
from agor.daemon.store.sqlite.feed import read_events
from agor.daemon.store.sqlite.file import DatabaseFile

_THREADS = 4


class Readers:
    """The threads that read."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="agor-reader")
        self._local = threading.local()
        self._connections: set[sqlite3.Connection] = set()

    async def read(self, sql: str, values: Row = ()) -> list[Row]:
        """Ask one question."""
        return await self._loop.run_in_executor(self._threads, self._read, sql, values)

    async def snapshot(self, questions: Sequence[Statement]) -> list[list[Row]]:
        """Ask several questions of one moment."""
        return await self._loop.run_in_executor(self._threads, self._snapshot, questions)

    async def events(
        self, number: int, after: int, limit_rows: int, limit_bytes: int
    ) -> list[tuple[int, bytes]]:
        """Read a page of a feed."""
        return await self._loop.run_in_executor(
            self._threads, self._events, number, after, limit_rows, limit_bytes
        )

    def close(self, *, wait: bool) -> None:
        """End the threads, and close the connections of those that have ended."""
        self._threads.shutdown(wait=wait, cancel_futures=True)
        for connection in self._connections if wait else ():
            connection.close()

    def _read(self, sql: str, values: Row) -> list[Row]:
        with self._connection() as connection:
            return connection.execute(sql, values).fetchall()

    def _snapshot(self, questions: Sequence[Statement]) -> list[list[Row]]:
        with self._connection() as connection:
            connection.execute("BEGIN")
            try:
                return [connection.execute(sql, values).fetchall() for sql, values in questions]
            finally:
                connection.execute("COMMIT")

    def _events(self, *page: int) -> list[tuple[int, bytes]]:
        with self._connection() as connection:
            return read_events(connection, *page)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Lend this thread's connection; one that failed is not used again."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        try:
            if connection is None:
                connection = self._local.connection = self._file.connect_to_read()
                self._connections.add(connection)
            yield connection
        except (sqlite3.Error, MemoryError) as error:
            if not faults.of_the_disk(error):
                raise faults.refused(error) from error
            self._local.connection = None
            if connection is not None:
                self._connections.discard(connection)
                connection.close()
            raise faults.unavailable(error, self._file.path) from error
