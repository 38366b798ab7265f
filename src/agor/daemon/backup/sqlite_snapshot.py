"""Copying an SQLite database while a daemon writes to it, and checking such a copy.

`VACUUM INTO` reads one snapshot and takes no lock that a writer waits for. SQLite's own backup
interface starts over with each commit of another process, and so may never end.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from agor.daemon.backup.snapshot import Snapshot, look
from agor.daemon.services.audit.anchors import Anchor
from agor.daemon.store.base import Row
from agor.daemon.store.migrate import VERSION_TABLE, needs_upgrade
from agor.daemon.store.sqlite import faults
from agor.errors import StoreUnusable

#: Seconds between two attempts to end a statement: the first may come before it has begun.
_INTERRUPT_INTERVAL = 0.05


async def copy(source: Path, target: Path) -> None:
    """Write a consistent copy to a new file that only its owner can read."""
    if not source.exists():
        raise StoreUnusable(
            f"there is no database {source}", hint="The first start makes it: agor daemon start"
        )
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with _opened(source, "ro") as connection:
        try:
            await _Reading(connection).read("VACUUM INTO ?", (str(target),))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                # Of the copy: nothing is written to the source.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error
            raise


async def check(path: Path, anchors: Sequence[Anchor]) -> Snapshot:
    """Look through a copy: every page, the schema's revision, the audit log."""
    with _opened(path, "ro") as connection:
        database = _Reading(connection)
        [(found,)] = await database.read("PRAGMA integrity_check(1)")
        if found != "ok":
            raise StoreUnusable(
                f"{path} is damaged: {found}", hint="Restore an earlier backup of it."
            )
        listed = await database.read("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {name for (name,) in listed}
        revision = None
        if VERSION_TABLE in tables:
            [(revision,)] = await database.read(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608
        needs_upgrade(tables, revision)
        if revision is None:
            raise StoreUnusable(f"{path} is empty: no daemon has used it yet")
        return await look(database, revision, anchors)


def forget_executors(path: Path) -> None:
    """Forget the executors of the time of the copy: none of them is the new daemon's."""
    with _opened(path, "rw") as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("DELETE FROM executors")


class _Reading:
    """Runs statements in a thread. A statement that is cancelled has ended when `read` raises."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def read(self, sql: str, values: Row = ()) -> list[Row]:
        """Run one statement, and return its rows."""
        with ThreadPoolExecutor(max_workers=1) as pool:
            answer = pool.submit(lambda: self._connection.execute(sql, values).fetchall())
            try:
                return await asyncio.wrap_future(answer)
            finally:
                # The caller closes the connection, which crashes the process if a thread uses it.
                while not answer.done():
                    self._connection.interrupt()
                    wait([answer], timeout=_INTERRUPT_INTERVAL)


@contextlib.contextmanager
def _opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    try:
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise faults.unusable(error, path) from error
