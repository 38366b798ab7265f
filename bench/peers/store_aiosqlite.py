"""A peer of the store group: aiosqlite, one row per transaction.

Usage: python store_aiosqlite.py WAY SYNC COUNT FOLDER
"""
# The package lives in the peers' own environment, where a type checker does not look.
# mypy: disable-error-code="import-not-found"

import sys

import aiosqlite
import uvloop
from bench.store.rows import INSERT, TABLE, measured, rows


async def main(sync: str, count: int, folder: str) -> None:
    async with aiosqlite.connect(f"{folder}/peer.db") as connection:
        await connection.execute("PRAGMA journal_mode = WAL")
        await connection.execute(f"PRAGMA synchronous = {sync}")
        await connection.execute(TABLE)
        with measured(count):
            for row in rows(count):
                await connection.execute(INSERT, row)
                await connection.commit()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[2], int(sys.argv[3]), sys.argv[4]))
