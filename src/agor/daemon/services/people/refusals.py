"""Refused tokens and sign-ins, in the audit log; but nobody can fill the database with them.

So many a minute are written for each address, and so many in all. Of the rest a number is kept,
and written once the minute is over. Nobody waits for any of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import structlog

from agor.daemon.services.audit.records import STRANGER, record
from agor.daemon.services.people.throttle import place_of
from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import now
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import AuditRecord
from agor.errors import StoreError

log = structlog.get_logger("agor.people")

#: Milliseconds.
_WINDOW = 60_000
BY_ADDRESS = 10
IN_ALL = 100
#: Addresses that are told apart among those of which nothing more is written.
_MOST_ADDRESSES = 1000
_NAMED = 10


class Refusals:
    """Those of this minute."""

    def __init__(self, store: Store, clock: Callable[[], int] = now) -> None:
        self.clock = clock
        self._store = store
        self._window = clock()
        self._written: Counter[str] = Counter()
        #: Of each action, how many were not written, by address.
        self._unwritten: dict[str, Counter[str]] = {}
        self._waiting: list[AuditRecord] = []
        self._writing: asyncio.Task[None] | None = None

    def note(
        self,
        action: str,
        address: str,
        subject: str | None,
        reason: str,
        who: Principal | None = None,
    ) -> None:
        """Write down that somebody was refused, or count it."""
        self.roll()
        place = place_of(address)
        if self._written[place] < BY_ADDRESS and self._written.total() < IN_ALL:
            self._written[place] += 1
            self._write(
                record(
                    action, who, actor=STRANGER, subject=subject, result="refused",
                    address=address, reason=reason,
                )
            )  # fmt: skip
            return
        counted = self._unwritten.setdefault(action, Counter())
        known = place in counted or len(counted) < _MOST_ADDRESSES
        counted[place if known else "others"] += 1

    def roll(self) -> None:
        """Begin a new minute, if this one is over."""
        at = self.clock()
        if at - self._window < _WINDOW:
            return
        self._window = at
        self._written.clear()
        self._write_counts()

    async def finish(self) -> None:
        """Write what was counted, also of a minute that is not over: the daemon ends."""
        self._write_counts()
        await self.settled()

    def _write_counts(self) -> None:
        unwritten, self._unwritten = self._unwritten, {}
        for action, counted in unwritten.items():
            self._write(
                record(
                    action, actor=STRANGER, result="refused", not_written=counted.total(),
                    addresses=dict(counted.most_common(_NAMED)),
                )
            )  # fmt: skip

    async def settled(self) -> None:
        """Wait until all of it is written that is written."""
        while self._writing is not None:
            await asyncio.wait((self._writing,))

    def _write(self, refusal: AuditRecord) -> None:
        self._waiting.append(refusal)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                refusals, self._waiting = self._waiting, []
                await self._store.commit(Write(records=refusals))
        except StoreError as error:
            log.warning("refusals_not_written", why=error.message)
        finally:
            self._writing = None
