"""Messages, as they are stored: the frames of the conversation's blocks."""

from __future__ import annotations

import msgspec

from agor.daemon.store import mapping
from agor.daemon.store.base import Row, Statement, Store
from agor.daemon.store.rows import MessageRow

_INSERT = mapping.insert("messages", MessageRow, "session_number, sequence")
_UPDATE = (
    "UPDATE messages SET status = COALESCE(?, status), reason = COALESCE(?, reason),"
    " tool_input = COALESCE(?, tool_input) WHERE session_number = ? AND sequence = ?"
)
_COMPLETE = (
    "UPDATE messages SET last_sequence = ?, length = ?, is_error = ?"
    " WHERE session_number = ? AND sequence = ?"
)
_CUT = (
    "UPDATE messages SET last_sequence = ?"
    " WHERE session_number = ? AND task_id = ? AND last_sequence IS NULL"
)
_SELECT = f"SELECT {mapping.columns(MessageRow)} FROM messages"  # noqa: S608 - names of ours

_plain = mapping.reader(MessageRow)


def _read(row: Row) -> MessageRow:
    message = _plain(row)
    return msgspec.structs.replace(message, is_error=bool(message.is_error))


def start(row: MessageRow) -> Statement:
    """Add a block that has begun."""
    return Statement(_INSERT, mapping.values(row))


def update(
    session_number: int,
    sequence: int,
    *,
    status: str | None,
    reason: str | None,
    tool_input: bytes | None,
) -> Statement:
    """Change a block; what is None stays as it is."""
    return Statement(_UPDATE, (status, reason, tool_input, session_number, sequence))


def complete(
    session_number: int, sequence: int, last_sequence: int, length: int, is_error: bool
) -> Statement:
    """Store that a block is told to its end."""
    return Statement(_COMPLETE, (last_sequence, length, int(is_error), session_number, sequence))


def cut(session_number: int, task_id: str, last_sequence: int) -> Statement:
    """Store that nothing more will be told of a task's blocks that are not complete."""
    return Statement(_CUT, (last_sequence, session_number, task_id))


async def get(store: Store, session_number: int, sequence: int) -> MessageRow | None:
    """Find a block."""
    found = await store.read(
        f"{_SELECT} WHERE session_number = ? AND sequence = ?", (session_number, sequence)
    )
    return _read(found[0]) if found else None


async def open_blocks(store: Store, session_number: int, task_id: str) -> list[MessageRow]:
    """List the blocks of a task that are not complete, in the order they began."""
    found = await store.read(
        f"{_SELECT} WHERE session_number = ? AND task_id = ? AND last_sequence IS NULL"
        " ORDER BY sequence",
        (session_number, task_id),
    )
    return [_read(row) for row in found]


async def snapshot_page(
    store: Store, session_number: int, before: int | None, limit: int
) -> tuple[list[MessageRow], int]:
    """List blocks, the newest first, and tell the last sequence of the feed at that moment.

    `before` is the sequence of the last block of the page before.
    """
    if before is None:
        blocks = Statement(
            f"{_SELECT} WHERE session_number = ? ORDER BY sequence DESC LIMIT ?",
            (session_number, limit),
        )
    else:
        blocks = Statement(
            f"{_SELECT} WHERE session_number = ? AND sequence < ? ORDER BY sequence DESC LIMIT ?",
            (session_number, before, limit),
        )
    last = Statement("SELECT MAX(sequence) FROM events WHERE session_number = ?", (session_number,))
    rows, [(sequence,)] = await store.snapshot([blocks, last])
    return [_read(row) for row in rows], sequence or 0
