"""Writes to SQLite: whole groups, one after another.

A group is committed with one sync. If the disk fails, all of the group fails; if the fault is in a
write, that one alone. While nothing can be written it is to be tried every now and then whether
that is over (`probe`), so that `available` tells the truth also when nobody dares to write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from agor.daemon.store.chain import Link
from agor.daemon.store.sqlite import faults
from agor.daemon.store.sqlite.checkpoints import Checkpoints, Say
from agor.daemon.store.sqlite.file import DatabaseFile, touch
from agor.daemon.store.sqlite.frames import Group
from agor.daemon.store.sqlite.transaction import (
    CommitBrokenError,
    Refused,
    commit_each,
    commit_together,
)
from agor.errors import StoreError, StoreUnavailable


class Writer:
    """The one connection that writes."""

    def __init__(
        self, file: DatabaseFile, checkpoints: Checkpoints, say: Say, *, available: bool
    ) -> None:
        self._file = file
        self._checkpoints = checkpoints
        self._say = say
        self._connection: sqlite3.Connection | None = None
        #: Where the audit log ends; looked up when it is needed after anything went wrong.
        self._head: Link | None = None
        #: Whether the last attempt was a success.
        self.available = available

    def open(self) -> int:
        """Connect; tells the number of the last commit. Raises errors of SQLite and ours."""
        return self._file.last_commit(self._connected())

    def commit(self, group: Group, announce: Callable[[Refused], None]) -> Refused:
        """Commit a group; tells which of its writes were refused, by place.

        Those that are at fault themselves `announce` is told of before the rest is committed.
        """
        self._checkpoints.begin()
        try:
            refused = self._write(group, announce)
        except CommitBrokenError as error:
            failed = self._failed(error.__cause__ or error)
            self._bury()
            return _all(group, failed)
        except Exception as error:  # noqa: BLE001 - whatever it was, nobody may wait for ever
            return _all(group, self._failed(error))
        self.available = True
        self._checkpoints.committed(group)
        return refused

    def tidy_up(self) -> None:
        """Do what is to be done between two groups."""
        if self._connection is not None:
            self._checkpoints.finish(self._connection)

    def probe(self) -> bool:
        """Try whether the database can be written again."""
        self._checkpoints.begin()
        try:
            if self._file.has_space():
                touch(self._connected())
                self.available = True
        except Exception as error:  # noqa: BLE001 - it is tried again
            self._failed(error)
        return self.available

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write(self, group: Group, announce: Callable[[Refused], None]) -> Refused:
        connection = self._connected()
        try:
            self._head = commit_together(connection, group, self._head)
        except CommitBrokenError:
            raise
        except Exception as error:
            if faults.of_the_disk(error):
                raise
            refused, self._head = commit_each(connection, group, announce)
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
            self._say("still_failing", database=str(self._file.path), why=str(error))

    def _connected(self) -> sqlite3.Connection:
        self._file.check()
        if self._connection is None:
            self._connection = self._file.connect()
        return self._connection

    def _failed(self, error: BaseException) -> StoreUnavailable:
        self.available = False
        self._head = None
        if faults.of_the_connection(error):
            self.close()
        if isinstance(error, StoreUnavailable):
            return error
        return faults.unavailable(error, self._file.path)


def _all(group: Group, error: StoreError) -> Refused:
    return dict.fromkeys(range(len(group.writes)), error)
