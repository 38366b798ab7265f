"""The one thread that writes to SQLite.

It takes whatever waits as soon as the last commit is done, commits it as one group with one sync,
and hands all results to the event loop in one call. If the disk fails, all of the group fails; if
the fault is in a write, that one alone. While nothing can be written it looks every second whether
that is over, so that `available` tells the truth also when nobody dares to write.
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable

import structlog

from agor.daemon.store.base import Write
from agor.daemon.store.chain import Link
from agor.daemon.store.line import Line, Waiting, refuse_all
from agor.daemon.store.sqlite import faults
from agor.daemon.store.sqlite.checkpoints import Checkpoints
from agor.daemon.store.sqlite.file import DatabaseFile, touch
from agor.daemon.store.sqlite.transaction import (
    CommitBrokenError,
    commit_each,
    commit_together,
)
from agor.errors import StoreError, StoreUnavailable

log = structlog.get_logger("agor.store")

#: How often it is tried whether the database can be written again.
_PROBE_SECONDS = 1.0

Report = Callable[[list[Waiting], dict[int, StoreError]], None]


class Writer:
    """The thread and its connection."""

    def __init__(
        self,
        file: DatabaseFile,
        checkpoints: Checkpoints,
        report: Report,
        on_end: Callable[[], None],
    ) -> None:
        self._file = file
        self._checkpoints = checkpoints
        self._report = report
        self._on_end = on_end
        self._line: Line
        self._connection: sqlite3.Connection | None = None
        #: Rung when there is something to do and the thread sleeps. A ring too many does no harm.
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._asleep = False
        self._closing = False
        #: Where the audit log ends; looked up when it is needed after anything went wrong.
        self._head: Link | None = None
        #: Whether the last attempt was a success.
        self.available = True
        self._thread = threading.Thread(target=self._run, name="agor-writer", daemon=True)

    def start(self, line: Line) -> None:
        """Start the thread."""
        self._line = line
        self._thread.start()

    def wake(self) -> None:
        """There is something in the line. Cheap if the thread is at work: it looks again."""
        if self._asleep:
            self._asleep = False
            self._bell.put(None)

    def finish(self) -> None:
        """Write what is in the line, and end."""
        self._closing = True
        self._bell.put(None)

    def _run(self) -> None:
        try:
            while group := self._next():
                refused = self._commit(group)
                # If the loop is gone: what was handed in is written all the same.
                with contextlib.suppress(RuntimeError):
                    self._report(group, refused)
                if self._connection is not None:
                    self._checkpoints.finish(self._connection)
        finally:
            self._disconnect()
            with contextlib.suppress(RuntimeError):
                self._on_end()

    def _next(self) -> list[Waiting]:
        """Wait for a group; an empty one is the end."""
        while not (group := self._line.take()):
            self._asleep = True
            # What came before the flag was up rang no bell.
            if (group := self._line.take()) or self._closing:
                break
            try:
                self._bell.get(timeout=None if self.available else _PROBE_SECONDS)
            except queue.Empty:
                self._probe()
        self._asleep = False
        return group

    def _commit(self, group: list[Waiting]) -> dict[int, StoreError]:
        writes = [waiting.write for waiting in group]
        self._checkpoints.begin()
        try:
            refused = self._write(self._connected(), writes)
        except CommitBrokenError as error:
            failed = self._failed(error.__cause__ or error)
            self._bury()
            return refuse_all(group, failed)
        except Exception as error:  # noqa: BLE001 - whatever it was, nobody may wait for ever
            return refuse_all(group, self._failed(error))
        self.available = True
        self._checkpoints.committed(group)
        return refused

    def _write(self, connection: sqlite3.Connection, writes: list[Write]) -> dict[int, StoreError]:
        try:
            self._head = commit_together(connection, writes, self._head)
        except CommitBrokenError:
            raise
        except Exception as error:
            if faults.of_the_disk(error):
                raise
            refused, self._head = commit_each(connection, writes)
            return refused
        return {}

    def _bury(self) -> None:
        """Write over what a commit that failed has left in the log.

        If only its sync has failed, all of it is there: SQLite does not count it, but would find it
        after a crash, and its callers are about to hear that it was not stored.
        """
        try:
            touch(self._connected())
        except (sqlite3.Error, MemoryError, StoreUnavailable) as error:
            log.warning("still_failing", database=str(self._file.path), why=str(error))

    def _probe(self) -> None:
        self._checkpoints.begin()
        try:
            if self._file.has_space():
                touch(self._connected())
                self.available = True
        except Exception as error:  # noqa: BLE001 - it is tried again
            self._failed(error)

    def _connected(self) -> sqlite3.Connection:
        self._file.check()
        if self._connection is None:
            self._connection = self._file.connect()
        return self._connection

    def _failed(self, error: BaseException) -> StoreUnavailable:
        self.available = False
        self._head = None
        if faults.of_the_connection(error):
            self._disconnect()
        if isinstance(error, StoreUnavailable):
            return error
        return faults.unavailable(error, self._file.path)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
