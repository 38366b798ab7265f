"""How a database file is looked after; both the daemon and the process that writes know it."""

from __future__ import annotations

from msgspec import Struct

from agor.daemon.store.base import READ_SECONDS

#: SQLite's own default.
PAGE_BYTES = 4096
#: The log's file is not kept larger than this once it is emptied.
LOG_BYTES = 128 * 1024 * 1024

#: A file is the same one for as long as its device and its number are.
Identity = tuple[int, int]
#: Of the database and of its log; none if there is none.
Identities = tuple[Identity | None, Identity | None]


class Upkeep(Struct, frozen=True, kw_only=True):
    """The times and sizes of it."""

    #: Seconds that a statement waits for another program's lock.
    busy_seconds: float = 5.0
    #: Seconds that a question may take.
    read_seconds: float = READ_SECONDS
    #: Seconds between two signs of life of the process that writes.
    beat_seconds: float = 1.0
    #: Seconds between two looks whether the files are still the same ones.
    check_seconds: float = 0.2
    #: Bytes committed before it is worth the while to move them out of the log.
    worth_bytes: int = 32 * 1024 * 1024
    #: Pages in the log past which the writer waits for readers.
    log_pages: int = LOG_BYTES // PAGE_BYTES
