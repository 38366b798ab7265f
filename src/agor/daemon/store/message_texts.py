"""The compacted texts of blocks, as they are stored.

They are bytes: a text may hold what PostgreSQL does not take as text, such as NUL.
"""

from __future__ import annotations

from collections.abc import Sequence

from agor.daemon.store.base import Row, Statement, Store

#: Only for a block that is there: its session may have been deleted meanwhile.
_PUT = (
    "INSERT INTO message_texts (session_number, sequence, length, text)"
    " SELECT session_number, sequence, ?, ? FROM messages"
    " WHERE session_number = ? AND sequence = ? AND last_sequence IS NOT NULL"
    " ON CONFLICT (session_number, sequence) DO NOTHING"
)


def put(session_number: int, sequence: int, text: str, length: int) -> Statement:
    """Keep the text of a block that has ended; the first one stays, as all are the same."""
    encoded = text.encode("utf-8", "surrogatepass")
    return Statement(_PUT, (length, encoded, session_number, sequence))


async def sizes(store: Store, session_number: int, sequences: Sequence[int]) -> dict[int, int]:
    """Tell how many bytes the texts of these blocks have, where they are stored."""
    return dict(await _select(store, "LENGTH(text)", session_number, sequences))


async def of(
    store: Store, session_number: int, sequences: Sequence[int]
) -> dict[int, tuple[str, int]]:
    """Read the texts of these blocks and their lengths, where they are stored."""
    found = await _select(store, "text, length", session_number, sequences)
    return {
        sequence: (text.decode("utf-8", "surrogatepass"), length)
        for sequence, text, length in found
    }


async def _select(
    store: Store, columns: str, session_number: int, sequences: Sequence[int]
) -> list[Row]:
    if not sequences:
        return []
    marks = ", ".join("?" * len(sequences))
    return await store.read(
        f"SELECT sequence, {columns} FROM message_texts"  # noqa: S608 - names and marks only
        f" WHERE session_number = ? AND sequence IN ({marks})",
        (session_number, *sequences),
    )
