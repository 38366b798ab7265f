"""The database file: who may use it, how it is opened, and whether it is still there.

SQLite's own locks are let go when any descriptor of the file is closed, so nothing here opens it
beside SQLite once a connection exists; that one daemon owns it is a lock on a file beside it.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from pathlib import Path
from typing import NoReturn

from agor import private
from agor.daemon.store.migrate import VERSION_TABLE, needs_upgrade, upgrade
from agor.daemon.store.sqlite import faults
from agor.daemon.store.sqlite.upkeep import LOG_BYTES, Identities, Identity, Upkeep
from agor.errors import StoreUnavailable, StoreUnusable

#: How long another's lock is waited for: the writer of a daemon that was killed lets go of it when
#: it is done with the commit it is at, for which it may have to wait `Upkeep.busy_seconds` first.
_LOCK_SECONDS = 15.0
#: Free space below which a full disk is taken to be full still.
_SPACE_BYTES = 1024 * 1024

#: Some SQL of ours is not known to SQLite before.
_OLDEST = (3, 35)


class DatabaseFile:
    """A database file that is ours alone while it is claimed."""

    def __init__(self, path: Path, upkeep: Upkeep | None = None) -> None:
        # SQLite follows links, and so do the files beside it.
        self.path = path.resolve()
        self.upkeep = upkeep or Upkeep()
        self._log = self.path.with_name(f"{self.path.name}-wal")
        #: The lock that keeps other daemons out. Whoever has this descriptor holds it.
        self.lock: int | None = None
        #: Kept open so that the log stays the same file, whichever connection is closed.
        self._anchor: sqlite3.Connection | None = None
        self._checked = -self.upkeep.check_seconds
        #: What the database and its log are.
        self.identities: Identities = (None, None)

    def claim(self) -> None:
        """Make the file if there is none, readable for nobody else, and lock out other daemons."""
        if sqlite3.sqlite_version_info < _OLDEST:
            raise StoreUnusable(
                f"Python here has SQLite {sqlite3.sqlite_version}; it must be 3.35 or newer",
                hint="Use a newer Python, or PostgreSQL (database.url).",
            )
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = self.path.with_name(f"{self.path.name}-lock")
            self.lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if not private.locked_within(self.lock, _LOCK_SECONDS):
                self._refuse()
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self.path.chmod(0o600)
        except OSError as error:
            self.release()
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise StoreUnavailable(
                f"the database {self.path} cannot be opened: {error.strerror}",
                hint="Free some space."
                if full
                else "The daemon's user must be able to write the file and its folder.",
            ) from error

    def _refuse(self) -> NoReturn:
        self.release()
        raise StoreUnusable(
            f"another daemon uses the database {self.path}",
            hint="Stop it, or give this one a database of its own (database.url). If there is "
            "none, one that was killed has left a process that still writes: wait for it.",
        )

    def release(self) -> None:
        """Let others have it. All connections are closed."""
        if self._anchor is not None:
            self._anchor.close()
            self._anchor = None
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def connect(self) -> sqlite3.Connection:
        """Open a connection to write with. The file must be there: none is made."""
        connection = self._connect()
        # Safe against power loss: each commit is synced.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
        connection.execute("PRAGMA cache_size = -32768")
        # Zeroes what was deleted where that costs no more writing; Debian's default doubles it.
        connection.execute("PRAGMA secure_delete = FAST")
        return connection

    def connect_to_read(self) -> sqlite3.Connection:
        """Open a connection that cannot write."""
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw",
            uri=True,
            timeout=self.upkeep.busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        # The log is emptied in a thread of its own: see `checkpoints`.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection

    def prepare(self) -> None:
        """Bring the schema up to date, and see that the database can be written."""
        try:
            anchor = self._anchor = self.connect()
            (mode,) = anchor.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StoreUnusable(
                    f"{self.path} cannot have a write-ahead log: SQLite keeps it as {mode!r}",
                    hint="It must lie on a local file system, not on a network's.",
                )
            if needs_upgrade(*_state(anchor)):
                _upgrade(anchor)
            touch(anchor)
            self.identities = self._look()
        except (sqlite3.Error, MemoryError) as error:
            raise faults.unusable(error, self.path) from error

    def last_commit(self, connection: sqlite3.Connection) -> int:
        """Read the number of the last commit."""
        row = connection.execute("SELECT number FROM last_commit WHERE one = 1").fetchone()
        if row is None:
            raise StoreUnusable(
                f"the table last_commit of {self.path} is empty: it was changed by hand",
                hint="INSERT INTO last_commit (one, number) VALUES (1, 0)",
            )
        return int(row[0])

    def check(self) -> None:
        """Make sure that we do not go on writing into a file that nobody will find again."""
        now = time.monotonic()
        if now < self._checked + self.upkeep.check_seconds:
            return
        if self._look() == self.identities:
            self._checked = now
        else:
            raise StoreUnavailable(
                f"the database {self.path} or its log was removed or replaced while in use",
                hint="Stop the daemon, put the database back with its -wal file, start again.",
            )

    def has_space(self) -> bool:
        """Tell whether the disk has room for more than next to nothing."""
        disk = os.statvfs(self.path.parent)
        return disk.f_bavail * disk.f_frsize >= _SPACE_BYTES

    def log_written(self) -> int:
        """Tell when the log was written last, in nanoseconds; 0 if it cannot be seen."""
        try:
            return self._log.stat().st_mtime_ns
        except OSError:
            return 0

    def _look(self) -> Identities:
        return _identity(self.path), _identity(self._log)


def touch(connection: sqlite3.Connection) -> None:
    """Commit next to nothing."""
    connection.execute("UPDATE last_commit SET number = number + 1 WHERE one = 1")


def _identity(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _state(connection: sqlite3.Connection) -> tuple[set[str], str | None]:
    """Read the names of the tables, and the revision of the schema."""
    tables = {
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    }
    if VERSION_TABLE not in tables:
        return tables, None
    row = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()  # noqa: S608
    return tables, row[0] if row else None


def _upgrade(connection: sqlite3.Connection) -> None:
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import StaticPool

    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    # Python's driver would not begin a transaction for a change of the schema.
    event.listen(engine, "begin", lambda begun: begun.exec_driver_sql("BEGIN IMMEDIATE"))
    with engine.begin() as begun:
        upgrade(begun)
