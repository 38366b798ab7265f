"""Storing how far many tasks have come by one statement.

Under load almost every write has such a statement, and a statement costs more than a row. They can
be carried out after all others of their group: what was received only grows, so the order makes no
difference.
"""

from __future__ import annotations

import sqlite3
from itertools import chain

from agor.daemon.store.base import Row
from agor.daemon.store.tasks import RECEIVED


def _for_many(size: int) -> str:
    rows = ", ".join(["(?, ?, ?)"] * size)
    return (
        f"UPDATE tasks SET received = new.column1 FROM (VALUES {rows}) AS new"  # noqa: S608
        " WHERE task_id = new.column2 AND received < new.column3"
    )


#: Tasks of one statement, and the statement. Each is prepared once.
_MANY = tuple((size, _for_many(size)) for size in (64, 32, 16, 8, 4, 2))


class Received:
    """The statements of a group that are kept for its end."""

    def __init__(self) -> None:
        #: By task: the one that says most.
        self._last: dict[str, Row] = {}

    def add(self, values: Row) -> None:
        """Keep the values of a statement."""
        sequence, task_id, _ = values
        kept = self._last.get(task_id)
        if kept is None or kept[0] < sequence:
            self._last[task_id] = values

    def execute(self, connection: sqlite3.Connection) -> None:
        """Carry them out."""
        rows = list(self._last.values())
        for size, sql in _MANY:
            while len(rows) >= size:
                connection.execute(sql, tuple(chain.from_iterable(rows[-size:])))
                del rows[-size:]
        for values in rows:
            connection.execute(RECEIVED, values)
