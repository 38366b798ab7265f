"""Moving what was committed from SQLite's write-ahead log into the database file.

It is done in a thread of its own, so that commits do not wait for it. While commits go on without a
pause it never catches up with them; so the writer moves the little that is left, between two
commits, and the next one starts the log anew. That bounds the log, and to write over it takes half
the time of making it longer. Readers can be in the way of starting anew: past `Upkeep.log_pages`
the writer waits for them a little.

Before its version 3.51.3 SQLite could damage a database if a checkpoint of a log that was moved
already began in the very moment in which a commit starts that log anew. So one begins only when
something was committed since the last one ended (`_begun`, `_done`) and went into the log
(`_written`), and never two at once.
"""

from __future__ import annotations

import sqlite3
import threading
from typing import Any, Protocol

from agor.daemon.store.sqlite.file import DatabaseFile
from agor.daemon.store.sqlite.frames import Group
from agor.daemon.store.sqlite.upkeep import PAGE_BYTES


class Say(Protocol):
    """Puts something into the daemon's log, as a warning."""

    def __call__(self, event: str, **members: Any) -> None:
        """Say it."""


#: How long the writer waits for readers, if there are too many pages in the log.
_PATIENCE_MS = 100


class Checkpoints:
    """The thread, and what the writer tells it."""

    def __init__(self, file: DatabaseFile, say: Say) -> None:
        self._file = file
        self._say = say
        #: Pages that the log had at last, and how many are too many.
        self._frames, self._limit = 0, file.upkeep.log_pages
        self._bell = threading.Event()
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

    def begin(self) -> None:
        """The writer begins a transaction."""
        self._begun += 1

    def committed(self, group: Group) -> None:
        """The writer has committed a group."""
        self._done = self._begun
        self._unmoved += _growth(group)
        if self._unmoved >= self._file.upkeep.worth_bytes and not self._over:
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
        connection.execute(f"PRAGMA busy_timeout = {int(self._file.upkeep.busy_seconds * 1000)}")
        # Who reads for so long would make commits wait again and again: let it grow a while.
        most = self._file.upkeep.log_pages
        self._limit = frames + most if busy else most
        if busy:
            self._say("log_not_emptied", database=str(self._file.path), pages=frames)

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while self._bell.wait():
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

    def _is_due(self) -> bool:
        return (
            not self._over and self._done > self._mark and self._file.log_written() != self._written
        )

    def _failed(self, error: sqlite3.Error) -> None:
        # The log stays as it is, and what was committed is safe in it.
        self._say("checkpoint_failed", database=str(self._file.path), why=str(error))

    def _move(self, connection: sqlite3.Connection) -> None:
        _, self._frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self._written = self._file.log_written()
        self._mark = self._begun
        self._over = True


def _growth(group: Group) -> int:
    """Estimate by how many bytes the log has grown: each write changes one page at least."""
    size = group.size
    if size > group.rows * (PAGE_BYTES // 4):
        size += group.rows * PAGE_BYTES
    return size + len(group.writes) * PAGE_BYTES
