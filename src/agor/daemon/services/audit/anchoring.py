"""The daemon's part in the audit log: its own start and end, and anchors in between.

An anchor is noted at the start, at the end, and once a minute while records come. Before the next
one it is looked whether the last one still fits: if not, the log was changed behind our back, and
that is said in the log itself, in the daemon's own log and by its health.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

import agor
from agor.daemon.services.audit.anchors import Anchor, AnchorFile, to_spare
from agor.daemon.services.audit.records import record
from agor.daemon.services.audit.refused_tokens import RefusedTokens
from agor.daemon.store import audit
from agor.daemon.store.base import Store, Write
from agor.daemon.store.chain import Link
from agor.errors import BadInput, StoreError

log = structlog.get_logger("agor.audit")

#: Seconds between two anchors.
_INTERVAL = 60.0
#: So many are noted before it is looked whether the file is too long.
_TIDY_AFTER = 500
#: Seconds that the daemon's end may take to be noted.
_PATIENCE = 5.0
_HINT = "agor audit verify says more. After a copy of the database was put back this is expected."


class Anchoring:
    """Keeps the anchors of one daemon's log."""

    def __init__(self, store: Store, file: AnchorFile, refused: RefusedTokens) -> None:
        self._store = store
        self._file = file
        self._refused = refused
        self._last: Anchor | Link | None = None
        #: Anchors that we have noted.
        self._noted = 0
        self._rounds: asyncio.Task[None] | None = None
        #: What is wrong with the log, as far as it was seen.
        self.fault: str | None = None

    async def begin(self, **facts: Any) -> None:
        """The daemon starts: look at the last anchor, and write down the start."""
        self._last = next(reversed(await self._tidy()), None)
        await self._look()
        started = record("daemon.started", version=agor.__version__, **facts)
        await self._store.commit(Write(records=[started]))
        await self._anchor()
        self._rounds = asyncio.create_task(self._go_round())

    async def end(self, **facts: Any) -> None:
        """The daemon ends: write that down, as far as it can be written."""
        if self._rounds is None:
            return
        self._rounds.cancel()
        await asyncio.wait((self._rounds,))
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._refused.flush()
                await self._store.commit(Write(records=[record("daemon.stopped", **facts)]))
                await self._anchor()
        except (StoreError, TimeoutError) as error:
            log.warning("end_not_noted", why=str(error) or "the database does not answer")

    async def _go_round(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL)
            try:
                await self._refused.flush()
                await self._look()
                await self._anchor()
                if self._noted % _TIDY_AFTER == 0:
                    await self._tidy()
            except StoreError as error:
                log.warning("not_anchored", why=error.message)

    async def _tidy(self) -> list[Anchor]:
        """Keep the file small; gives what is in it."""
        try:
            anchors = await asyncio.to_thread(self._file.read)
            spare = {
                anchor
                for anchor in to_spare(anchors)
                if await audit.hash_at(self._store, anchor.number) == anchor.hash
            }
            if spare:
                anchors = [anchor for anchor in anchors if anchor not in spare]
                await asyncio.to_thread(self._file.write, anchors)
        except BadInput as error:
            self._say(error.message)
            return []
        return anchors

    async def _look(self) -> None:
        """See that what was anchored last is still there."""
        last = self._last
        if last is None or await audit.hash_at(self._store, last.number) == last.hash:
            return
        head = await audit.head(self._store)
        self._say(f"record {last.number} was anchored and is not there, or is another one now")
        # From here on the new log is what is anchored. The old anchor stays in the file.
        self._last = None
        told = record(
            "audit.anchor_differs",
            result="failed",
            subject=str(last.number),
            anchored=last.hash.hex(),
            found=head.number,
        )
        await self._store.commit(Write(records=[told]))

    async def _anchor(self) -> None:
        head = await audit.head(self._store)
        if self._last is not None and head.number == self._last.number:
            return
        try:
            await asyncio.to_thread(self._file.append, head)
        except BadInput as error:
            log.warning("not_anchored", why=error.message)
            return
        self._noted += 1
        self._last = head

    def _say(self, fault: str) -> None:
        self.fault = fault
        log.error("audit_log_changed", what=fault, hint=_HINT)
