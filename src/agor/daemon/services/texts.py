"""The texts of blocks: put together from the deltas of the feed, or read as they were compacted.

The feed holds every delta, and nothing here changes it. A long block that has ended is compacted
once: its text is stored whole, so that reading it costs no more than the text, however many deltas
it had. That copy can always be made again from the feed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec import Struct

from agor.daemon.store import events, message_texts
from agor.daemon.store.base import Store
from agor.daemon.store.rows import MessageRow
from agor.protocol.conversation import Text
from agor.protocol.events import BlockDelta
from agor.protocol.validation import UNREADABLE

#: A block with at least so many events between its start and its end is worth compacting.
LONG = 64
#: Bytes of the feed that are read for one answer.
_MOST_READ = 64 * 1024 * 1024
_PAGE_EVENTS = 5000
_PAGE_BYTES = 4 * 1024 * 1024


class BlockText(NamedTuple):
    """A block's text, cut at the bound of `Text`, and its length as `Text` counts it."""

    text: str
    length: int


def is_long(row: MessageRow) -> bool:
    """Tell whether a block has ended and had so many events that its text is compacted."""
    return row.last_sequence is not None and row.last_sequence - row.sequence >= LONG


async def read_texts(
    store: Store, number: int, rows: Iterable[MessageRow], last: int
) -> tuple[dict[int, BlockText], list[int]]:
    """Read the texts of blocks; also list the long ones that are not compacted yet."""
    rows = list(rows)
    long = [row.sequence for row in rows if is_long(row)]
    sizes = await message_texts.sizes(store, number, long)
    stored = await message_texts.of(store, number, _within(sizes, _MOST_READ))
    found = {sequence: BlockText(*each) for sequence, each in stored.items()}
    others = [row for row in rows if row.sequence not in found]
    texts = Assembly(row.sequence for row in others)
    for first, end in _ranges(others, last):
        after = first - 1
        while after < end and texts.wants_more and texts.bytes_read < _MOST_READ:
            most = min(end - after, _PAGE_EVENTS)
            page = await events.page(store, number, after, most, _PAGE_BYTES)
            texts.take(page)
            if not page:
                break
            after = page[-1][0]
    found.update(texts.found())
    return found, [sequence for sequence in long if sequence not in sizes]


def _within(sizes: dict[int, int], room: int) -> list[int]:
    """Take the newest texts that fit into so many bytes; they are more only if an executor lied."""
    taken: list[int] = []
    for sequence in sorted(sizes, reverse=True):
        room -= sizes[sequence]
        if room < 0:
            break
        taken.append(sequence)
    return taken


class _DeltaEvent(Struct, tag_field="type", tag="block_delta"):
    """A stored delta, with no more of it than a text needs."""

    task_id: str | None
    data: BlockDelta


class _OfBlock(Struct):
    """The part of an event's data that says which block it is about."""

    block_id: str


class _StartEvent(Struct, tag_field="type", tag="block_start"):
    task_id: str | None
    data: _OfBlock


class _CompleteEvent(Struct, tag_field="type", tag="block_complete"):
    task_id: str | None
    data: _OfBlock


_read_event = msgspec.json.Decoder(_DeltaEvent | _StartEvent | _CompleteEvent).decode


class Assembly:
    """Adds each delta to the text of its block, by the rules of `agor.protocol.conversation`."""

    def __init__(self, sequences: Iterable[int]) -> None:
        #: By the sequence at which the block starts.
        self._texts = {sequence: Text() for sequence in sequences}
        #: By task and id, since no task can add to the blocks of another. None: not wanted.
        self._open: dict[tuple[str | None, str], Text | None] = {}
        self.bytes_read = 0

    @property
    def wants_more(self) -> bool:
        """Whether more events can change anything."""
        return not all(text.full for text in self._texts.values())

    def take(self, page: Iterable[tuple[int, bytes]]) -> None:
        """Take the next events of the feed."""
        for sequence, body in page:
            self.bytes_read += len(body)
            try:
                event = _read_event(body)
            except UNREADABLE:
                # It is of another kind, or an executor broke its form: neither changes a text.
                continue
            key = (event.task_id, event.data.block_id)
            if isinstance(event, _DeltaEvent):
                if (text := self._open.get(key)) is not None:
                    text.add(event.data.text)
            elif isinstance(event, _StartEvent):
                self._open[key] = self._texts.get(sequence)
            else:
                self._open.pop(key, None)

    def found(self) -> dict[int, BlockText]:
        """Return the texts, by the sequence at which their block starts."""
        return {
            sequence: BlockText(str(text), text.length) for sequence, text in self._texts.items()
        }


def _ranges(rows: Iterable[MessageRow], last: int) -> list[tuple[int, int]]:
    """Join the parts of the feed in which blocks lie."""
    joined: list[tuple[int, int]] = []
    for row in sorted(rows, key=lambda each: each.sequence):
        end = last if row.last_sequence is None else min(row.last_sequence, last)
        if joined and row.sequence <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((row.sequence, end))
    return joined
