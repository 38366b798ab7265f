"""PostgreSQL by its driver alone: the limit, and what is usually done.

Usage: python -m bench.store.postgres WAY - COUNT FOLDER URL
"""

import sys
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import uvloop

from bench.store.rows import batches, measured, rows

BATCH = 1000
FEEDS = 32
TABLE = """
CREATE TABLE events (
  session_number BIGINT NOT NULL, sequence BIGINT NOT NULL, body BYTEA NOT NULL,
  PRIMARY KEY (session_number, sequence)
)
"""


async def copy_by_thousands(connection: Any, count: int) -> None:
    """The limit: nothing but COPY, 1,000 rows each."""
    with measured(count):
        for batch in batches(count, BATCH, FEEDS):
            await connection.copy_records_to_table("events", records=batch)


async def one_by_one(connection: Any, count: int) -> None:
    """One row per transaction."""
    with measured(count):
        for row in rows(count):
            await connection.execute("INSERT INTO events VALUES ($1, $2, $3)", *row)


WAYS = {way.__name__: way for way in (copy_by_thousands, one_by_one)}


async def main(way: str, count: int, url: str) -> None:
    """Run one way on an empty database."""
    connection = await asyncpg.connect(url)
    await connection.execute(TABLE)
    await WAYS[way](connection, count)
    await connection.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[3]), sys.argv[5]))
