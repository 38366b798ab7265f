"""Compacts the texts of long blocks in the background, one block at a time.

Blocks come from tasks that have ended, and from conversations that were read before their blocks
were compacted: after a crash, or from before there was compaction. A block that is missed costs
time when it is read, and nothing else, so nothing here is kept over a restart.

Bounds: one page of events and one text in memory, a tenth of the event loop's time at most, and
`_MOST_WAITING` blocks in the queue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

import structlog

from agor.daemon.services.texts import Assembly, is_long
from agor.daemon.store import events, message_texts, messages
from agor.daemon.store.base import Store, Write
from agor.errors import StoreError

log = structlog.get_logger("agor.compaction")

_MOST_WAITING = 10_000
_PAGE_EVENTS = 1000
_PAGE_BYTES = 1024 * 1024
#: It rests so many times as long as it has worked.
_REST = 9.0


class Compactor:
    """Stores the texts of long blocks that have ended."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: Blocks by session number and sequence, in the order they came; the first is at work.
        self._waiting: dict[tuple[int, int], None] = {}
        self._work: asyncio.Task[None] | None = None

    def add(self, session_number: int, sequences: Iterable[int]) -> None:
        """Have blocks compacted; those that are short, or not there, are passed over."""
        for sequence in sequences:
            if len(self._waiting) >= _MOST_WAITING:
                break
            self._waiting[session_number, sequence] = None
        if self._waiting and self._work is None:
            self._work = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop; what still waits is compacted when it is read."""
        self._waiting.clear()
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait((self._work,))

    async def _run(self) -> None:
        try:
            while self._waiting:
                block = next(iter(self._waiting))
                try:
                    await self._compact(*block)
                except StoreError as error:
                    log.warning("not_compacted", session_number=block[0], why=error.message)
                except Exception:
                    # Whatever is wrong with this one, the others are compacted.
                    log.exception("not_compacted", session_number=block[0])
                self._waiting.pop(block, None)
        finally:
            self._work = None

    async def _compact(self, number: int, sequence: int) -> None:
        row = await messages.get(self._store, number, sequence)
        if row is None or row.last_sequence is None or not is_long(row):
            return
        if await message_texts.sizes(self._store, number, [sequence]):
            return
        text, after = Assembly((sequence,)), sequence - 1
        while after < row.last_sequence and text.wants_more:
            most = min(row.last_sequence - after, _PAGE_EVENTS)
            page = await events.page(self._store, number, after, most, _PAGE_BYTES)
            if not page:
                # Its session was deleted.
                return
            began = time.perf_counter()
            text.take(page)
            after = page[-1][0]
            await asyncio.sleep((time.perf_counter() - began) * _REST)
        found = text.found()[sequence]
        await self._store.commit(
            Write([message_texts.put(number, sequence, found.text, found.length)])
        )
