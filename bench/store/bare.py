"""SQLite by the standard library: the limit, what is usually done, and the disk below.

Usage: python -m bench.store.bare WAY SYNC COUNT FOLDER
"""

import asyncio
import os
import sqlite3
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.store.rows import INSERT, Row, batches, database, measured, report, rows

BATCH = 1000
FEEDS = 32


def in_line(folder: Path, sync: str, count: int) -> None:
    """One row per transaction."""
    connection = database(folder, sync)
    with measured(count):
        for row in rows(count):
            connection.execute(INSERT, row)


def in_a_thread(folder: Path, sync: str, count: int) -> None:
    """One row per transaction, from an event loop."""
    asyncio.run(_in_a_thread(database(folder, sync), count))


async def _in_a_thread(connection: sqlite3.Connection, count: int) -> None:
    loop = asyncio.get_running_loop()

    def insert(row: Row) -> None:
        connection.execute(INSERT, row)

    with ThreadPoolExecutor(1) as thread, measured(count):
        for row in rows(count):
            await loop.run_in_executor(thread, insert, row)


def by_thousands(folder: Path, sync: str, count: int, feeds: int = FEEDS) -> None:
    """The limit: nothing but the loop, 1,000 rows per transaction."""
    connection = database(folder, sync)
    with measured(count):
        for batch in batches(count, BATCH, feeds):
            connection.execute("BEGIN")
            connection.executemany(INSERT, batch)
            connection.execute("COMMIT")


def by_thousands_one_feed(folder: Path, sync: str, count: int) -> None:
    """The same, with all rows one after another in the table."""
    by_thousands(folder, sync, count, feeds=1)


def fdatasync(folder: Path, _sync: str, count: int) -> None:
    """What the disk takes for a page at the end of a file, without a database."""
    page, taken = os.urandom(4096), []
    with (folder / "pages").open("wb", buffering=0) as file:
        for _ in range(count):
            start = time.perf_counter()
            file.write(page)
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - start)
    report(sync_ms=statistics.median(taken) * 1000)


WAYS = {way.__name__: way for way in (in_line, in_a_thread, by_thousands, by_thousands_one_feed,
                                      fdatasync)}  # fmt: skip

if __name__ == "__main__":
    WAYS[sys.argv[1]](Path(sys.argv[4]), sys.argv[2], int(sys.argv[3]))
