"""A session's conversation as blocks: their frames from one table, their text from the feed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from agor.daemon.services.live import LiveSessions
from agor.daemon.services.principal import Principal
from agor.daemon.store import events, messages
from agor.daemon.store.base import Store
from agor.daemon.store.rows import MessageRow
from agor.errors import Unprocessable
from agor.protocol.api import Message, Messages
from agor.protocol.conversation import LONGEST_TEXT, Text
from agor.protocol.events import BlockDelta, BlockStart, BlockUpdate
from agor.protocol.validation import UNREADABLE

#: Characters of all texts of one answer, as their blocks say; and bytes read for it, if they lie.
_PAGE_TEXT = 8_000_000
_MOST_READ = 64 * 1024 * 1024
_PAGE_EVENTS = 5000
_PAGE_BYTES = 4 * 1024 * 1024


class _Event(Struct):
    """As much of a stored event as is needed to put a text together."""

    type: str
    task_id: str | None
    data: msgspec.Raw


class _OfBlock(Struct):
    """As much of an event's data as says which block it is about."""

    block_id: str


_read_event = msgspec.json.Decoder(_Event).decode
_read_block = msgspec.json.Decoder(_OfBlock).decode
_read_delta = msgspec.json.Decoder(BlockDelta).decode
_read_start = msgspec.json.Decoder(BlockStart).decode
_read_update = msgspec.json.Decoder(BlockUpdate).decode


class Conversations:
    """Reads conversations back."""

    def __init__(self, store: Store, lives: LiveSessions) -> None:
        self._store = store
        self._lives = lives

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
        texts = await self._texts(number, rows, last)
        items = [_show(row, texts[row.sequence]) for row in reversed(rows)]
        return Messages(
            items=items,
            next_cursor=str(rows[-1].sequence) if more else None,
            sequence=last,
        )

    async def _texts(self, number: int, rows: Iterable[MessageRow], last: int) -> dict[int, Text]:
        """Put the texts of blocks together from their deltas; read only where such blocks are."""
        texts = {row.sequence: Text() for row in rows}
        reader = _Reader(texts)
        for first, end in _ranges(rows, last):
            after = first - 1
            while after < end and reader.wants_more:
                found = await events.page(self._store, number, after, _PAGE_EVENTS, _PAGE_BYTES)
                for sequence, body in found:
                    if sequence > end:
                        break
                    reader.take(sequence, body)
                if not found:
                    break
                after = found[-1][0]
        return texts


class _Reader:
    """Gives each delta to its block, by the rules of `agor.protocol.conversation`."""

    def __init__(self, texts: dict[int, Text]) -> None:
        #: By the sequence at which the block begins.
        self._texts = texts
        #: By task and id, since no task can add to what another one says. None: nobody asked.
        self._open: dict[tuple[str | None, str], Text | None] = {}
        self._size = 0

    @property
    def wants_more(self) -> bool:
        """Whether more can change anything, or is more than one answer may cost."""
        return self._size < _MOST_READ and not all(text.full for text in self._texts.values())

    def take(self, sequence: int, body: bytes) -> None:
        """Take the next event of the feed."""
        self._size += len(body)
        event = _read_event(body)
        try:
            if event.type == "block_delta":
                delta = _read_delta(event.data)
                if (text := self._open.get((event.task_id, delta.block_id))) is not None:
                    text.add(delta.text)
            elif event.type == "block_start":
                key = (event.task_id, _read_block(event.data).block_id)
                self._open[key] = self._texts.get(sequence)
            elif event.type == "block_complete":
                self._open.pop((event.task_id, _read_block(event.data).block_id), None)
        except UNREADABLE:
            # What an executor says is not believed, and here it makes no sense.
            return


def _that_fit(rows: Sequence[MessageRow]) -> Sequence[MessageRow]:
    """Take so many blocks, one at least, that their texts fit into one answer."""
    room = _PAGE_TEXT
    for count, row in enumerate(rows):
        room -= min(LONGEST_TEXT if row.length is None else row.length, LONGEST_TEXT)
        if room < 0 and count:
            return rows[:count]
    return rows


def _ranges(rows: Iterable[MessageRow], last: int) -> list[tuple[int, int]]:
    """Join the stretches of the feed in which blocks lie."""
    joined: list[tuple[int, int]] = []
    for row in sorted(rows, key=lambda each: each.sequence):
        end = last if row.last_sequence is None else min(row.last_sequence, last)
        if joined and row.sequence <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((row.sequence, end))
    return joined


def _show(row: MessageRow, text: Text) -> Message:
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
        text=str(text),
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
