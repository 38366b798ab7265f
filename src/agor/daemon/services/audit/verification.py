"""Verifying the audit log: along its chain, past every anchor, part by part.

A part is bounded in records, so that a log of any length neither holds up the daemon nor fills its
memory. The log only grows, so parts that were read at different times fit together.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from agor.daemon.services.audit.anchors import Anchor
from agor.daemon.store import audit
from agor.daemon.store.base import Reads
from agor.daemon.store.chain import GENESIS, Link
from agor.daemon.store.checking import LOOK_AHEAD, Fault, follow, name_fault
from agor.daemon.store.rows import AuditRow
from agor.errors import StoreError, StoreUnavailable, Unprocessable
from agor.protocol.audit import AuditFault, AuditVerification

#: Records of one part, and of one question to the database.
PART = 50_000
_AT_ONCE = 500
_CURSOR = re.compile(r"([0-9]{1,18})\.([0-9a-f]{64})")


async def verify_part(
    store: Reads, anchors: Sequence[Anchor], cursor: str | None, most: int = PART
) -> AuditVerification:
    """Verify from the beginning or from a cursor on. The anchors were read before this."""
    walk = _Walk(store, anchors, _read_cursor(cursor))
    ended = await walk.go(most)
    fault, link = walk.fault, walk.link
    return AuditVerification(
        checked=walk.checked,
        number=link.number,
        hash=link.hash.hex(),
        anchors=walk.anchored,
        fault=None
        if fault is None
        else AuditFault(number=fault.number, kind=fault.kind, what=fault.what),
        next_cursor=None if ended else f"{link.number}.{link.hash.hex()}",
    )


class _Walk:
    """One walk along the chain."""

    def __init__(self, store: Reads, anchors: Sequence[Anchor], start: Link) -> None:
        self._store = store
        self._anchors: dict[int, list[Anchor]] = {}
        for anchor in anchors:
            self._anchors.setdefault(anchor.number, []).append(anchor)
        #: The last record that is right.
        self.link = start
        self.checked = 0
        self.anchored = 0
        self.fault: Fault | None = None

    async def go(self, most: int) -> bool:
        """Go so far, or to the end or the first fault, and then it is done."""
        while self.checked < most:
            try:
                rows = await self._next(min(_AT_ONCE, most - self.checked))
            except StoreUnavailable:
                raise
            except StoreError as error:
                number = self.link.number + 1
                what = f"record {number} cannot be read any more ({error.message})"
                self.fault = Fault(number, "changed", what)
                return True
            self.fault = await self._check(rows)
            if self.fault is not None or not rows:
                return True
        return False

    async def _check(self, rows: list[AuditRow]) -> Fault | None:
        """Check what comes next; nothing is the end of the log."""
        if not rows:
            return self._cut_off()
        # In a thread: to hash so many takes longer than others should wait.
        right = await asyncio.to_thread(follow, self.link, rows)
        fault = self._take(rows[:right])
        if fault is None and right < len(rows):
            ahead = await self._ahead(rows[right:])
            fault = await asyncio.to_thread(name_fault, self.link, ahead)
        return fault

    async def _next(self, limit: int) -> list[AuditRow]:
        try:
            return await audit.behind(self._store, self.link.number, limit)
        except StoreUnavailable:
            raise
        except StoreError:
            if limit == 1:
                raise
            # One of them is not even text any more: find out which.
            return await self._next(1)

    async def _ahead(self, rows: list[AuditRow]) -> list[AuditRow]:
        """Read on behind a fault, as far as it takes to name it."""
        try:
            return rows + await audit.behind(self._store, rows[-1].number, LOOK_AHEAD)
        except StoreUnavailable:
            raise
        except StoreError:
            return rows

    def _take(self, rows: list[AuditRow]) -> Fault | None:
        """Count records that follow from each other, up to one that an anchor contradicts."""
        for row in rows:
            for anchor in self._anchors.get(row.number, ()):
                if anchor.hash != row.hash:
                    return _differs(anchor)
                self.anchored += 1
            self.link = Link(row.number, row.hash)
            self.checked += 1
        return None

    def _cut_off(self) -> Fault | None:
        """Say whether there once was more than there is."""
        last = max(self._anchors, default=0)
        if last <= self.link.number:
            return None
        time = self._anchors[last][0].time
        what = f"the log ends with record {self.link.number}, but at {time} it had {last}"
        return Fault(self.link.number + 1, "missing", what)


def _differs(anchor: Anchor) -> Fault:
    what = (
        f"record {anchor.number} or one before it was another when it was anchored, at "
        f"{anchor.time}: the log was written anew"
    )
    return Fault(anchor.number, "anchor", what)


def _read_cursor(cursor: str | None) -> Link:
    if cursor is None:
        return GENESIS
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise Unprocessable(
            "cursor: this is none of ours", hint="Use next_cursor of the answer before, as it is."
        )
    return Link(int(found[1]), bytes.fromhex(found[2]))
