"""A session's conversation as blocks: their frames from one table, and their texts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from agor.daemon.services.compaction import Compactor
from agor.daemon.services.live import LiveSessions
from agor.daemon.services.principal import Principal
from agor.daemon.services.texts import BlockText, read_texts
from agor.daemon.store import messages
from agor.daemon.store.base import Store
from agor.daemon.store.rows import MessageRow
from agor.errors import Unprocessable
from agor.protocol.api import Message, Messages
from agor.protocol.conversation import LONGEST_TEXT
from agor.protocol.events import BlockStart, BlockUpdate

#: Characters of all texts of one answer, as their blocks say.
_PAGE_TEXT = 8_000_000

_read_start = msgspec.json.Decoder(BlockStart).decode
_read_update = msgspec.json.Decoder(BlockUpdate).decode


class Conversations:
    """Reads conversations back."""

    def __init__(self, store: Store, lives: LiveSessions, compactor: Compactor) -> None:
        self._store = store
        self._lives = lives
        self._compactor = compactor

    async def page(
        self, who: Principal, session_id: str, cursor: str | None, limit: int
    ) -> Messages:
        """List blocks, the newest page first, each page in the order of the conversation."""
        live = await self._lives.get_for(who, session_id, "session.view")
        number = live.row.number
        before = _read_cursor(cursor)
        found, last = await messages.snapshot_page(self._store, number, before, limit + 1)
        rows = _that_fit(found[:limit])
        more = len(found) > len(rows)
        texts, uncompacted = await read_texts(self._store, number, rows, last)
        self._compactor.add(number, uncompacted)
        items = [_show(row, texts[row.sequence]) for row in reversed(rows)]
        return Messages(
            items=items,
            next_cursor=str(rows[-1].sequence) if more else None,
            sequence=last,
        )


def _that_fit(rows: Sequence[MessageRow]) -> Sequence[MessageRow]:
    """Take so many blocks, one at least, that their texts fit into one answer."""
    room = _PAGE_TEXT
    for count, row in enumerate(rows):
        room -= min(LONGEST_TEXT if row.length is None else row.length, LONGEST_TEXT)
        if room < 0 and count:
            return rows[:count]
    return rows


def _show(row: MessageRow, text: BlockText) -> Message:
    start = _read_start(row.start)
    changed = None if row.tool_input is None else _read_update(row.tool_input).tool_input
    return Message(
        message_id=row.block_id,
        task_id=row.task_id,
        kind=start.kind,
        parent_tool_use_id=start.parent_tool_use_id,
        tool_use_id=start.tool_use_id,
        tool_name=start.tool_name,
        tool_input=start.tool_input if changed is None else changed,
        status=row.status,  # type: ignore[arg-type]
        reason=row.reason,
        text=text.text,
        length=text.length if row.length is None else row.length,
        complete=row.length is not None,
        is_error=row.is_error,
        sequence=row.sequence,
    )


def _read_cursor(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not cursor.isascii() or not cursor.isdecimal() or len(cursor) > 18:
        raise Unprocessable("cursor: this is none of ours", hint="Use next_cursor as it is.")
    return int(cursor)
