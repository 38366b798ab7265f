"""The rows that every way writes, and the table they go into. Standard library only."""

import json
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

#: 190 bytes, as most events of a feed are.
BODY = b'{"sequence":1234567,"type":"block_delta","task_id":"0199","data":"' + b"x" * 122 + b'"}'
TABLE = """
CREATE TABLE events (
  session_number INTEGER NOT NULL, sequence INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (session_number, sequence)
) WITHOUT ROWID
"""
INSERT = "INSERT INTO events (session_number, sequence, body) VALUES (?, ?, ?)"

#: Events that a feed gets at once.
CHUNK = 64

Row = tuple[int, int, bytes]


def rows(count: int, feeds: int = 1) -> Iterator[Row]:
    """Events as they arrive: some for one feed, then some for the next."""
    return islice(_endless(feeds), count)


def _endless(feeds: int) -> Iterator[Row]:
    sequence = 0
    while True:
        for feed in range(1, feeds + 1):
            for number in range(sequence + 1, sequence + CHUNK + 1):
                yield feed, number, BODY
        sequence += CHUNK


def batches(count: int, size: int, feeds: int = 1) -> Iterator[list[Row]]:
    """The same rows, so many at a time."""
    remaining = rows(count, feeds)
    while batch := list(islice(remaining, size)):
        yield batch


def database(folder: Path, sync: str) -> sqlite3.Connection:
    """An empty database, opened as most programs do."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {sync}")
    connection.execute(TABLE)
    return connection


@contextmanager
def measured(count: int) -> Iterator[None]:
    """Print how many rows a second were written in the block."""
    start = time.perf_counter()
    yield
    report(rows_per_s=count / (time.perf_counter() - start))


def report(**figures: float) -> None:
    """Print figures for the group to read."""
    json.dump(figures, sys.stdout)
    print(flush=True)
