"""Looking into a database without being its daemon: nothing is changed, and no lock is taken."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

from agor.daemon.store.base import Reads, Row
from agor.daemon.store.connect import bad_url, file_of, is_postgres
from agor.errors import StoreUnusable


@contextlib.asynccontextmanager
async def looking_into(url: str) -> AsyncIterator[Reads]:
    """Open the database of a URL to read from it."""
    path = file_of(url)
    if path is not None:
        file = await asyncio.to_thread(_File, path)
        try:
            yield file
        finally:
            file.close()
    elif is_postgres(url):
        async with _postgres(url) as readers:
            yield readers
    else:
        raise bad_url()


class _File:
    """An SQLite file, read by whichever thread has time: one question at a time."""

    def __init__(self, path: Path) -> None:
        from agor.daemon.store.sqlite import faults

        self._path = path
        self._faults = faults
        if not path.exists():
            raise StoreUnusable(
                f"there is no database {path}", hint="The first start makes it: agor daemon start"
            )
        try:
            # What a killed daemon left in the log beside it is read too, and stays there.
            self._connection = sqlite3.connect(
                f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            raise faults.unusable(error, path) from error

    async def read(self, sql: str, values: Row = ()) -> list[Row]:
        """Ask one question."""
        return await asyncio.to_thread(self._read, sql, values)

    def _read(self, sql: str, values: Row) -> list[Row]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except (sqlite3.Error, MemoryError) as error:
            if self._faults.of_the_disk(error):
                raise self._faults.unavailable(error, self._path) from error
            raise self._faults.refused(error) from error

    def close(self) -> None:
        self._connection.close()


@contextlib.asynccontextmanager
async def _postgres(url: str) -> AsyncIterator[Reads]:
    from agor.daemon.store.postgres import faults
    from agor.daemon.store.postgres.readers import Readers

    readers = Readers(url)
    try:
        await readers.open()
    except Exception as error:
        raise faults.unusable(error) from error
    try:
        yield readers
    finally:
        await readers.close()
