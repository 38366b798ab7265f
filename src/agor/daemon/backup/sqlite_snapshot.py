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
from pathlib import Path

from agor.daemon.backup.snapshot import Snapshot, look
from agor.daemon.services.audit.anchors import Anchor
from agor.daemon.store.migrate import VERSION_TABLE, needs_upgrade
from agor.daemon.store.offline import looking_into
from agor.daemon.store.sqlite import faults
from agor.errors import StoreUnusable


async def copy(source: Path, target: Path) -> None:
    """Write a consistent copy to a new file that only its owner can read."""
    if not source.exists():
        raise StoreUnusable(
            f"there is no database {source}", hint="The first start makes it: agor daemon start"
        )
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with _opened(source, "ro") as connection:
        try:
            await asyncio.to_thread(connection.execute, "VACUUM INTO ?", (str(target),))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                # Of the copy: nothing is written to the source.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error
            raise
        finally:
            # Cancelled, it would otherwise go on to its end.
            connection.interrupt()


async def check(path: Path, anchors: Sequence[Anchor]) -> Snapshot:
    """Look through a copy: every page, the schema's revision, the audit log."""
    with _opened(path, "ro") as connection:
        found = await asyncio.to_thread(
            lambda: connection.execute("PRAGMA integrity_check(1)").fetchone()
        )
        if found != ("ok",):
            raise StoreUnusable(
                f"{path} is damaged: {found[0]}", hint="Restore an earlier backup of it."
            )
        tables = {
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        revision = None
        if VERSION_TABLE in tables:
            revision = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()[0]  # noqa: S608
    needs_upgrade(tables, revision)
    if revision is None:
        raise StoreUnusable(f"{path} is empty: no daemon has used it yet")
    async with looking_into(f"sqlite:///{path}") as database:
        return await look(database, revision, anchors)


def forget_executors(path: Path) -> None:
    """Forget the executors of the time of the copy: none of them is the new daemon's."""
    with _opened(path, "rw") as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("DELETE FROM executors")


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
