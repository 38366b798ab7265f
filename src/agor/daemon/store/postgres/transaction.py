"""Writing a group of writes in one transaction: events by COPY, equal statements together.

Every transaction sets the number in `last_commit`. If the connection breaks while it is committed,
that number tells afterwards whether it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

from agor.daemon.store import audit
from agor.daemon.store.base import Row, Statement, Write
from agor.daemon.store.chain import GENESIS, Link, chained
from agor.daemon.store.postgres import faults
from agor.daemon.store.postgres.connection import Connection
from agor.daemon.store.postgres.sql import translate
from agor.daemon.store.rows import AuditRecord
from agor.errors import StoreError

_COLUMNS = ("session_number", "sequence", "body")


class OutcomeUnknownError(Exception):
    """The connection broke while the transaction was being committed."""

    #: Those that are not in it in any case, by place.
    refused: Mapping[int, StoreError] = MappingProxyType({})


async def commit_together(
    connection: Connection, number: int, writes: Sequence[Write], head: Link | None
) -> Link | None:
    """Commit all writes, or none; gives where the audit log ends now, if that is known.

    `head` is where it ended before; none if that has to be looked up.
    """
    await _begin(connection, number)
    statements = [statement for write in writes for statement in write.statements]
    await _execute(connection, statements)
    await _copy(connection, [row for write in writes for row in _rows(write)])
    if records := [record for write in writes for record in write.records]:
        head = await _append(connection, head, records)
    await _commit(connection)
    return head


async def commit_each(
    connection: Connection, number: int, writes: Sequence[Write]
) -> tuple[dict[int, StoreError], Link | None]:
    """Commit the writes that can be stored; return what is wrong with the others, by place.

    Also returns where the audit log ends now, or None if nothing was added to it.
    """
    refused: dict[int, StoreError] = {}
    head: Link | None = None
    await _begin(connection, number)
    for place, write in enumerate(writes):
        outcome = await _attempt(connection, write, head)
        if isinstance(outcome, StoreError):
            refused[place] = outcome
        else:
            head = outcome
    try:
        await _commit(connection)
    except OutcomeUnknownError as error:
        error.refused = refused
        raise
    return refused, head


async def roll_back(connection: Connection) -> None:
    """Undo what was begun."""
    if connection.is_in_transaction():
        await connection.execute("ROLLBACK")


async def _begin(connection: Connection, number: int) -> None:
    # In one round trip, which takes no values.
    await connection.execute(
        f"BEGIN; UPDATE last_commit SET number = {number:d} WHERE one = 1"  # noqa: S608
    )


async def _commit(connection: Connection) -> None:
    try:
        outcome = await connection.execute("COMMIT")
    except Exception as error:
        raise OutcomeUnknownError from error
    assert outcome == "COMMIT", outcome


async def _attempt(
    connection: Connection, write: Write, head: Link | None
) -> Link | StoreError | None:
    """Store a write, or nothing of it; gives where the audit log ends then, or what is wrong.

    `head` is where it ended before; None if that has to be looked up.
    """
    await connection.execute("SAVEPOINT one")
    try:
        await _execute(connection, write.statements)
        fresh = [row for row in _rows(write) if not await _is_stored(connection, *row)]
        await _copy(connection, fresh)
        if write.records:
            head = await _append(connection, head, write.records)
    except Exception as error:
        if faults.of_the_server(error, connection):
            raise
        await connection.execute("ROLLBACK TO one")
        return faults.refused(error)
    await connection.execute("RELEASE one")
    return head


async def _head(connection: Connection) -> Link:
    found = await connection.fetchrow(audit.HEAD)
    return GENESIS if found is None else Link(*found)


async def _append(
    connection: Connection, head: Link | None, records: Sequence[AuditRecord]
) -> Link:
    """Add records to the audit log; gives where it ends then."""
    rows = chained(head or await _head(connection), records)
    await _execute(connection, [audit.insert(row) for row in rows])
    return Link(rows[-1].number, rows[-1].hash)


def _rows(write: Write) -> Iterator[tuple[int, int, bytes]]:
    """List the rows of a write's events."""
    for number, first, bodies in write.events:
        for sequence, body in enumerate(bodies, first):
            yield number, sequence, body


async def _is_stored(connection: Connection, number: int, sequence: int, body: bytes) -> bool:
    """Tell whether this very event is there already; another one in its place is an error."""
    found = await connection.fetchval(
        "SELECT body FROM events WHERE session_number = $1 AND sequence = $2", number, sequence
    )
    if found is None:
        return False
    if found != body:
        raise ValueError(f"event {sequence} of session number {number} is another one")
    return True


async def _execute(connection: Connection, statements: Sequence[Statement]) -> None:
    for sql, rows in _runs(statements):
        if len(rows) == 1:
            await connection.execute(sql, *rows[0])
        else:
            await connection.executemany(sql, rows)


def _runs(statements: Sequence[Statement]) -> Iterator[tuple[str, list[Row]]]:
    """Put neighbours with the same text together: they take one round trip."""
    for sql, run in groupby(statements, key=lambda statement: statement.sql):
        yield translate(sql), [statement.values for statement in run]


async def _copy(connection: Connection, rows: Sequence[tuple[int, int, bytes]]) -> None:
    if rows:
        await connection.copy_records_to_table("events", records=rows, columns=_COLUMNS)
