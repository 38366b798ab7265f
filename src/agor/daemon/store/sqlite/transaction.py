"""Writing a group of writes in one transaction.

A statement costs more than a row. So rows of the feed go in by statements with many rows each, and
so do neighbours that add a row to the same table. Every transaction leaves the number of its group
in `last_commit`: it tells what became of a group if the process died over it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain, groupby, repeat
from operator import itemgetter

from agor.daemon.store import audit
from agor.daemon.store.base import EventRun, Row, Write
from agor.daemon.store.chain import GENESIS, Link, chained
from agor.daemon.store.rows import AuditRecord
from agor.daemon.store.sqlite import faults
from agor.daemon.store.sqlite.frames import Group
from agor.daemon.store.sqlite.received import Received
from agor.daemon.store.tasks import RECEIVED
from agor.errors import StoreDamaged, StoreError

#: Rows of one statement. Each size is prepared once, and any number of rows takes few of them.
_SIZES = (2048, 1024, 512, 256, 128, 64, *range(32, 0, -1))
_INSERT = "INSERT INTO events (session_number, sequence, body) VALUES "
_INSERTS = tuple((size, _INSERT + ", ".join(["(?, ?, ?)"] * size)) for size in _SIZES)
#: What `mapping.insert` writes: one row of marks, which may as well be many.
_ADDS_A_ROW = re.compile(r"^(INSERT INTO \w+ \([\w, ]+\) VALUES )(\([?, ]+\))")
#: Each number of rows up to this is a statement of its own, which is prepared once.
_TOGETHER = 32


_NUMBER = "UPDATE last_commit SET number = ? WHERE one = 1"

#: What is wrong with the writes of a group that were not stored, by place.
Refused = dict[int, StoreError]


class CommitBrokenError(Exception):
    """The commit itself failed; its cause says how."""


class _DamageMetError(Exception):
    """A write needs a damaged part of the file; SQLite commits no transaction that has met it."""

    def __init__(self, place: int, error: StoreDamaged) -> None:
        super().__init__(place)
        self.place = place
        self.error = error


def commit_together(connection: sqlite3.Connection, group: Group, head: Link | None) -> Link | None:
    """Commit all writes, or none; gives where the audit log ends now, if that is known.

    `head` is where it ended before; none if that has to be looked up.
    """
    writes = group.writes
    received = Received()
    _begin(connection, group)
    try:
        statements = (statement for write in writes for statement in write.statements)
        for sql, run in groupby(statements, key=itemgetter(0)):
            if sql == RECEIVED:
                for _, values in run:
                    received.add(values)
            else:
                _execute(connection, sql, [values for _, values in run])
        received.execute(connection)
        _insert(connection, [run for write in writes for run in write.events])
        if records := [record for write in writes for record in write.records]:
            head = _append(connection, head, records)
        _commit(connection)
    except BaseException:
        _roll_back(connection)
        raise
    return head


def commit_each(
    connection: sqlite3.Connection, group: Group, announce: Callable[[Refused], None]
) -> tuple[Refused, Link | None]:
    """Commit the writes that can be stored; return what is wrong with the others, by place.

    `announce` hears the same before the commit. Also returns where the audit log ends now, or None
    if nothing was added to it.
    """
    damaged: Refused = {}
    while True:
        try:
            return _commit_others(connection, group, damaged, announce)
        except _DamageMetError as met:
            damaged[met.place] = met.error


def _commit_others(
    connection: sqlite3.Connection,
    group: Group,
    damaged: Refused,
    announce: Callable[[Refused], None],
) -> tuple[Refused, Link | None]:
    """Commit what can be stored, without those that need a damaged part of the file."""
    refused = dict(damaged)
    head: Link | None = None
    _begin(connection, group)
    try:
        for place, write in enumerate(group.writes):
            if place in damaged:
                continue
            outcome = _attempt(connection, write, head, place)
            if isinstance(outcome, StoreError):
                refused[place] = outcome
            else:
                head = outcome
        announce(refused)
        _commit(connection)
    except BaseException:
        _roll_back(connection)
        raise
    return refused, head


def _begin(connection: sqlite3.Connection, group: Group) -> None:
    """Begin a transaction, and leave the group's number in it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_NUMBER, (group.number,))
    except BaseException:
        _roll_back(connection)
        raise


def _execute(connection: sqlite3.Connection, sql: str, rows: list[Row]) -> None:
    """Carry out a statement once for each row of values, in their order."""
    at_once = _TOGETHER if len(rows) > 1 and _ADDS_A_ROW.search(sql) else 1
    for start in range(0, len(rows), at_once):
        some = rows[start : start + at_once]
        connection.execute(_adding(sql, len(some)), tuple(chain.from_iterable(some)))


@lru_cache(maxsize=1024)
def _adding(sql: str, rows: int) -> str:
    """Write a statement that adds one row as one that adds so many."""
    if rows == 1:
        return sql
    return _ADDS_A_ROW.sub(lambda found: found[1] + ", ".join([found[2]] * rows), sql)


def _attempt(
    connection: sqlite3.Connection, write: Write, head: Link | None, place: int
) -> Link | StoreError | None:
    """Store a write, or nothing of it; gives where the audit log ends then, or what is wrong.

    `head` is where it ended before; None if that has to be looked up.
    """
    connection.execute("SAVEPOINT one")
    try:
        for sql, values in write.statements:
            connection.execute(sql, values)
        for number, first, bodies in write.events:
            for sequence, body in enumerate(bodies, first):
                if not _is_stored(connection, number, sequence, body):
                    _insert(connection, [EventRun(number, sequence, (body,))])
        if write.records:
            head = _append(connection, head, write.records)
    except Exception as error:
        if faults.of_the_disk(error):
            raise
        refusal = faults.refused(error)
        if isinstance(refusal, StoreDamaged):
            raise _DamageMetError(place, refusal) from error
        connection.execute("ROLLBACK TO one")
        return refusal
    connection.execute("RELEASE one")
    return head


def _head(connection: sqlite3.Connection) -> Link:
    found = connection.execute(audit.HEAD).fetchone()
    return GENESIS if found is None else Link(*found)


def _append(
    connection: sqlite3.Connection, head: Link | None, records: Sequence[AuditRecord]
) -> Link:
    """Add records to the audit log; gives where it ends then."""
    rows = chained(head or _head(connection), records)
    _execute(connection, audit.INSERT, [audit.insert(row).values for row in rows])
    return Link(rows[-1].number, rows[-1].hash)


def _is_stored(connection: sqlite3.Connection, number: int, sequence: int, body: bytes) -> bool:
    """Tell whether this very event is there already; another one in its place is an error."""
    found = connection.execute(
        "SELECT body FROM events WHERE session_number = ? AND sequence = ?", (number, sequence)
    ).fetchone()
    if found is None:
        return False
    if found[0] != body:
        raise ValueError(f"event {sequence} of session number {number} is another one")
    return True


def _insert(connection: sqlite3.Connection, runs: Sequence[EventRun]) -> None:
    values = _flattened(runs)
    start, left = 0, len(values) // 3
    for size, sql in _INSERTS:
        while left >= size:
            connection.execute(sql, values[start : start + 3 * size])
            start += 3 * size
            left -= size


def _flattened(runs: Sequence[EventRun]) -> list[int | bytearray]:
    """List the values of all rows, one row after another, without making the rows."""
    numbers: list[int] = []
    sequences: list[int] = []
    # For `bytes` the driver looks for an adapter first, which costs more than to store them.
    bodies: list[bytearray] = []
    for number, first, each in runs:
        numbers += repeat(number, len(each))
        sequences += range(first, first + len(each))
        bodies += map(bytearray, each)
    values: list[int | bytearray] = [0] * (3 * len(bodies))
    values[0::3], values[1::3], values[2::3] = numbers, sequences, bodies
    return values


def _commit(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise CommitBrokenError from error


def _roll_back(connection: sqlite3.Connection) -> None:
    # SQLite has done it itself after most errors of the disk.
    if connection.in_transaction:
        connection.execute("ROLLBACK")
