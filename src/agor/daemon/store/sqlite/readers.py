"""Reading from SQLite: a few threads with a connection each. They see what is committed.

A question that is not answered in time is interrupted, and whoever asked is told so. On a disk that
stands still the interruption has no effect, and the thread is lost until the disk comes back; while
all of them are, questions are refused at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from agor.daemon.store.base import Row, Statement
from agor.daemon.store.sqlite import faults
from agor.daemon.store.sqlite.feed import read_events
from agor.daemon.store.sqlite.file import DatabaseFile
from agor.errors import StoreUnavailable

T = TypeVar("T")

_THREADS = 4


class Readers:
    """The threads that read."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="agor-reader")
        self._local = threading.local()
        self._connections: set[sqlite3.Connection] = set()
        #: Questions that a thread is still at, though nobody waits for the answer any more.
        self._overdue: set[Future[Any]] = set()

    @property
    def answering(self) -> bool:
        """Whether no question is overdue. On a disk that works, an interrupted one ends at once."""
        return not self._overdue

    @property
    def stuck(self) -> bool:
        """Whether no thread is left to ask."""
        return len(self._overdue) == _THREADS

    async def read(self, sql: str, values: Row = ()) -> list[Row]:
        """Ask one question."""
        return await self._ask(lambda connection: connection.execute(sql, values).fetchall())

    async def snapshot(self, questions: Sequence[Statement]) -> list[list[Row]]:
        """Ask several questions of one moment."""
        return await self._ask(lambda connection: _snapshot(connection, questions))

    async def events(
        self, number: int, after: int, limit_rows: int, limit_bytes: int
    ) -> list[tuple[int, bytes]]:
        """Read a page of a feed."""
        return await self._ask(
            lambda connection: read_events(connection, number, after, limit_rows, limit_bytes)
        )

    def close(self, *, wait: bool) -> None:
        """End the threads, and close the connections of those that have ended."""
        self._threads.shutdown(wait=wait, cancel_futures=True)
        for connection in self._connections if wait else ():
            connection.close()

    async def _ask(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        if self.stuck:
            raise self._no_answer()
        asked: list[sqlite3.Connection] = []
        answer = self._threads.submit(self._answer, ask, asked)
        try:
            async with asyncio.timeout(self._file.upkeep.read_seconds):
                return await asyncio.wrap_future(answer)
        except TimeoutError:
            self._interrupt(answer, asked)
            raise self._no_answer() from None

    def _interrupt(self, answer: Future[Any], asked: list[sqlite3.Connection]) -> None:
        """Have a thread give up on a question that it is at."""
        if answer.running():
            self._overdue.add(answer)
            answer.add_done_callback(self._overdue.discard)
            for connection in asked:
                # It may have failed and be closed by now.
                with contextlib.suppress(sqlite3.ProgrammingError):
                    connection.interrupt()

    def _no_answer(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"the database {self._file.path} did not answer a question within "
            f"{self._file.upkeep.read_seconds:g} s",
            hint="Look at its disk and at the kernel's log; the daemon goes on by itself as soon "
            "as it answers.",
        )

    def _answer(self, ask: Callable[[sqlite3.Connection], T], asked: list[sqlite3.Connection]) -> T:
        with self._connection() as connection:
            asked.append(connection)
            return ask(connection)

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
            of_the_disk = faults.of_the_disk(error)
            if connection is not None and (of_the_disk or faults.of_the_connection(error)):
                self._local.connection = None
                self._connections.discard(connection)
                connection.close()
            if of_the_disk:
                raise faults.unavailable(error, self._file.path) from error
            raise faults.refused(error) from error


def _snapshot(connection: sqlite3.Connection, questions: Sequence[Statement]) -> list[list[Row]]:
    connection.execute("BEGIN")
    try:
        return [connection.execute(sql, values).fetchall() for sql, values in questions]
    finally:
        connection.execute("COMMIT")
