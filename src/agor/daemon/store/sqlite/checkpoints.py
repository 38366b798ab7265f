"""Moving what was committed from SQLite's write-ahead log into the database file.

It is done in a thread of its own, so that commits do not wait for it. While commits go on without a
pause it never catches up with them, and the log would grow without end: past `LOG_FRAMES` the
writer itself does the rest, between two commits, and starts the log anew.

Before its version 3.51.3 SQLite could damage a database if a checkpoint of a log that was moved
already began in the very moment in which a commit starts that log anew. So one begins only when
something was committed since the last one ended (`_begun`, `_done`), and never two at once.
"""

from __future__ import annotations

import sqlite3
import threading

import structlog

from agor.daemon.store.sqlite.file import BUSY_SECONDS, LOG_BYTES, DatabaseFile

log = structlog.get_logger("agor.store")

#: Bytes committed before it is worth the while.
_WORTH_BYTES = 4 * 1024 * 1024
#: Pages in the log before the writer has to wait for them to be moved.
LOG_FRAMES = LOG_BYTES // 4096
#: How long the writer waits for readers that still need the log.
_PATIENCE_MS = 100


class Checkpoints:
    """The thread, and what the writer tells it."""

    def __init__(self, file: DatabaseFile, log_frames: int = LOG_FRAMES) -> None:
        self._file = file
        self._log_frames = log_frames
        self._bell = threading.Event()
        self._closing = False
        self._unmoved = 0
        #: Transactions begun, and the last one done; and how many were begun when we last ended.
        self._begun = self._done = self._mark = 0
        #: Whether it is the writer's turn.
        self._over = False
        self._thread = threading.Thread(target=self._run, name="agor-checkpoints", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closing = True
        self._bell.set()
        self._thread.join()

    def begin(self) -> None:
        """The writer begins a transaction."""
        self._begun += 1

    def committed(self, size: int) -> None:
        """The writer has committed so many bytes."""
        self._done = self._begun
        self._unmoved += size
        if self._unmoved >= _WORTH_BYTES and not self._over:
            self._unmoved = 0
            self._bell.set()

    def finish(self, connection: sqlite3.Connection) -> None:
        """The writer moves the rest, if the log is too long. Between two transactions."""
        if not self._over:
            return
        try:
            connection.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
            busy, frames, _ = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
            if busy:
                log.warning("log_not_emptied", database=str(self._file.path), pages=frames)
        except sqlite3.Error as error:
            self._failed(error)
        self._mark = self._begun
        self._over = False

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while self._bell.wait() and not self._closing:
            self._bell.clear()
            if self._over or self._done <= self._mark:
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

    def _failed(self, error: sqlite3.Error) -> None:
        # The log stays as it is, and what was committed is safe in it.
        log.warning("checkpoint_failed", database=str(self._file.path), why=str(error))

    def _move(self, connection: sqlite3.Connection) -> None:
        _, frames, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self._mark = self._begun
        if frames >= self._log_frames and moved > 0:
            self._over = True
