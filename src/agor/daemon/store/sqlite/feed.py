"""Reading a feed from SQLite: a whole page as one row.

The interpreter's lock is let go and taken back for each row, and beside a busy event loop that
costs up to a thousand times more than the row.
"""

from __future__ import annotations

import sqlite3
from itertools import accumulate, pairwise

from agor.daemon.store.events import LAST_OF_PAGE

#: The bodies are joined without a mark between them: any bytes may be in them. Rows of one range
#: of the primary key come in its order.
_PACKED = f"""
SELECT group_concat(sequence), group_concat(LENGTH(body)), CAST(group_concat(body, '') AS BLOB)
FROM (
  SELECT sequence, body FROM events
  WHERE session_number = ? AND sequence > ? AND sequence <= ({LAST_OF_PAGE})
  ORDER BY sequence
)
"""  # noqa: S608 - no values in it


def read_events(
    connection: sqlite3.Connection, number: int, after: int, limit_rows: int, limit_bytes: int
) -> list[tuple[int, bytes]]:
    """Read a page of a feed."""
    values = (number, after, number, after, limit_rows, limit_bytes)
    sequences, sizes, bodies = connection.execute(_PACKED, values).fetchone()
    if sequences is None:
        return []
    ends = accumulate(map(int, sizes.split(",")), initial=0)
    return [
        (int(sequence), bodies[start:end])
        for sequence, (start, end) in zip(sequences.split(","), pairwise(ends), strict=True)
    ]
