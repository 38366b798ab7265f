"""What SQLite's errors mean: for the disk, or for the one write that caused them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agor.errors import StoreDamaged, StoreError, StoreUnavailable, StoreUnusable

#: Primary result codes that say nothing about the statement: the same one may work later.
_OF_THE_DISK = {
    sqlite3.SQLITE_FULL: "Free some space; the daemon goes on by itself.",
    sqlite3.SQLITE_IOERR: "Look at the disk and at the kernel's log; the daemon tries again.",
    sqlite3.SQLITE_BUSY: "Another program has the database open for writing: end it.",
    sqlite3.SQLITE_LOCKED: "Another program has the database open for writing: end it.",
    sqlite3.SQLITE_PROTOCOL: "Another program has the database open for writing: end it.",
    sqlite3.SQLITE_CANTOPEN: "The daemon's user must be able to write the file and its folder.",
    sqlite3.SQLITE_READONLY: "The daemon's user must be able to write the file and its folder.",
    sqlite3.SQLITE_PERM: "The daemon's user must be able to write the file and its folder.",
    sqlite3.SQLITE_NOMEM: "The machine has no memory left.",
    sqlite3.SQLITE_INTERRUPT: "Try again.",
    sqlite3.SQLITE_CORRUPT: "Stop the daemon and restore a backup: agor restore PATH.",
    sqlite3.SQLITE_NOTADB: "Stop the daemon and restore a backup: agor restore PATH.",
}
#: Those of a file that was damaged: the same statement fails again, and others may not.
_OF_DAMAGE = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
#: Those after which a new connection may do better than the old one.
_OF_THE_CONNECTION = frozenset(_OF_THE_DISK) - {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY}


def _primary(error: BaseException) -> int:
    # The lowest byte; the rest tells more closely. Errors of Python's own module have none.
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def of_the_disk(error: BaseException) -> bool:
    """Tell whether it is no fault of what was written."""
    found = _primary(error)
    return isinstance(error, MemoryError) or (found in _OF_THE_DISK and found not in _OF_DAMAGE)


def of_the_connection(error: BaseException) -> bool:
    """Tell whether the connection should be made anew."""
    return _primary(error) in _OF_THE_CONNECTION


def unavailable(error: BaseException, path: Path) -> StoreUnavailable:
    """Say in SQLite's own words why the database cannot be used now."""
    name = getattr(error, "sqlite_errorname", None)
    words = f"{error} ({name})" if name else str(error) or type(error).__name__
    return StoreUnavailable(
        f"the database {path} cannot be used now: {words}", hint=_OF_THE_DISK.get(_primary(error))
    )


def refused(error: BaseException) -> StoreError:
    """Say why something can never be stored or read: damage, or a bug in whoever asked."""
    if _primary(error) in _OF_DAMAGE:
        return StoreDamaged(
            f"a part of the database that is needed for this is damaged: {error}",
            hint="What does not need that part goes on. Look at the disk, stop the daemon, and "
            "restore a backup: agor restore PATH.",
        )
    return StoreError(
        f"the database refused a write: {error}",
        hint="Nothing of it was stored; other writes are not concerned.",
    )


def unusable(error: BaseException, path: Path) -> StoreError:
    """Say why a database cannot be opened."""
    if _primary(error) in _OF_DAMAGE:
        return StoreUnusable(
            f"{path} is not an SQLite database, or it is damaged: {error}",
            hint="Point database.url elsewhere, or restore a backup: agor restore PATH.",
        )
    return unavailable(error, path)
