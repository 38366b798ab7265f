"""The events of the feeds, as they are stored. They are written with `Write.events`."""

from __future__ import annotations

from agor.daemon.store.base import Store

#: Finds the last sequence of a page. The sizes are added up without touching the bodies: one of
#: them may be as large as a line of the wire, and only those that are returned are loaded.
LAST_OF_PAGE = """
SELECT MAX(sequence) FROM (
  SELECT sequence, SUM(size) OVER (ORDER BY sequence ROWS UNBOUNDED PRECEDING) - size
    AS bytes_before
  FROM (
    SELECT sequence, LENGTH(body) AS size FROM events
    WHERE session_number = ? AND sequence > ? ORDER BY sequence LIMIT ?
  ) AS sizes
) AS sums
WHERE bytes_before < ?
"""


async def page(
    store: Store, number: int, after: int, limit_rows: int, limit_bytes: int
) -> list[tuple[int, bytes]]:
    """List events after a sequence, in order.

    They end with the one that fills `limit_bytes`, so there is at least one if there is any.
    """
    return await store.events(number, after, limit_rows, limit_bytes)


async def last_sequence(store: Store, number: int) -> int:
    """Tell the sequence of the last event of a session's feed; 0 if there is none."""
    found = await store.read("SELECT MAX(sequence) FROM events WHERE session_number = ?", (number,))
    return found[0][0] or 0
