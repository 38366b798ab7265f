"""Moving what was committed from SQLite's write-ahead log into the database file.

It is done in a thread of its own, so that commits do not wait for it. While commits go on without a
pause it never catches up with them; so the writer moves the little that is left, between two
commits, and the next one starts the log anew. That bounds the log, and to write over it takes half
the time of making it longer. Readers can be in the way of starting anew: past `LOG_FRAMES` the
writer waits for them a little.

Before its version 3.51.3 SQLite could damage a database if a checkpoint of a log that was moved
already began in the very moment in which a commit starts that log anew. So one begins only when
something was committed since the last one ended (`_begun`, `_done`) and went into the log
(`_written`), and never two at once.
"""

from __future__ import annotations

import sqlite3
import threading

import structlog

from agor.daemon.store.line import Waiting
from agor.daemon.store.sqlite.file import (
    BUSY_SECONDS,
    LOG_BYTES,
    PAGE_BYTES,
    DatabaseFile,
)

log = structlog.get_logger("agor.store")

#: Bytes committed before it is worth the while.
_WORTH_BYTES = 32 * 1024 * 1024
#: Pages in the log past which the writer waits for readers.
LOG_FRAMES = LOG_BYTES // PAGE_BYTES
#: … so long.
_PATIENCE_MS = 100


class Checkpoints:
    """The thread, and what the writer tells it."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        #: Pages that the log had at last, and how many are too many.
        self._frames, self._limit = 0, LOG_FRAMES
        self._bell = threading.Event()
        self._closing = False
        self._unmoved = 0
        #: Transactions begun, and the last one done; and how many were begun when we last ended.
        self._begun = self._done = self._mark = 0
        #: When the log was written last, as far as we know.
        self._written = 0
        #: Whether it is the writer's turn.
        self._over = False
        self._thread = threading.Thread(target=self._run, name="agor-checkpoints", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self, *, wait: bool) -> None:
        """End the thread."""
        self._closing = True
        self._bell.set()
        if wait:
            self._thread.join()

    def begin(self) -> None:
        """The writer begins a transaction."""
        self._begun += 1

    def committed(self, group: list[Waiting]) -> None:
        """The writer has committed a group."""
        self._done = self._begun
        self._unmoved += _growth(group)
        if self._unmoved >= _WORTH_BYTES and not self._over:
            self._unmoved = 0
            self._bell.set()

    def finish(self, connection: sqlite3.Connection) -> None:
        """The writer moves what is left, if it is its turn. Between two transactions."""
        if not self._over:
            return
        try:
            if self._frames < self._limit:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            else:
                self._insist(connection)
        except sqlite3.Error as error:
            self._failed(error)
        self._written = self._file.log_written()
        self._mark = self._begun
        self._over = False

    def _insist(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
        busy, frames, _ = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
        # Who reads for so long would make commits wait again and again: let it grow a while.
        self._limit = frames + LOG_FRAMES if busy else LOG_FRAMES
        if busy:
            log.warning("log_not_emptied", database=str(self._file.path), pages=frames)

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while self._bell.wait() and not self._closing:
            self._bell.clear()
            if not self._is_due():
                continue
            try:
                connection = connection or self._file.connect()
                self._move(connection)
            except sqlite3.Error as error:
                self._failed(error)
                self._mark = self._begun
                if connection is not None:
                    connection.close()
                    connection = None
        if connection is not None:
            connection.close()

    def _is_due(self) -> bool:
        return (
            not self._over and self._done > self._mark and self._file.log_written() != self._written
        )

    def _failed(self, error: sqlite3.Error) -> None:
        # The log stays as it is, and what was committed is safe in it.
        log.warning("checkpoint_failed", database=str(self._file.path), why=str(error))

    def _move(self, connection: sqlite3.Connection) -> None:
        _, self._frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self._written = self._file.log_written()
        self._mark = self._begun
        self._over = True


def _growth(group: list[Waiting]) -> int:
    """Estimate by how many bytes the log has grown: each write changes one page at least."""
    rows = sum(waiting.rows for waiting in group)
    size = sum(waiting.size for waiting in group)
    if size > rows * (PAGE_BYTES // 4):
        size += rows * PAGE_BYTES
    return size + len(group) * PAGE_BYTES
