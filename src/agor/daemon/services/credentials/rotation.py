"""Rotation of the master key, while everything goes on.

A new version is durable before anything is sealed with it; then all credentials are sealed anew, a
few at a time; an old version goes only when nothing is sealed with it. So at every moment all that
is stored can be opened with what is stored, and a daemon that was killed anywhere goes on from
there: whatever is not on the newest version is still to do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import structlog

from agor.daemon.services import access
from agor.daemon.services.audit.records import record
from agor.daemon.services.credentials.vault import Vault
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipt
from agor.daemon.store import credentials
from agor.daemon.store.base import Store, Write
from agor.errors import AgorError, MasterKeyUnusable, StoreUnavailable
from agor.protocol.credentials import Rotation

T = TypeVar("T")

log = structlog.get_logger("agor.credentials")

#: Credentials that are sealed anew in one commit.
_BATCH = 50
#: Seconds between two attempts while the store cannot write.
_PAUSE = 0.5


class Rotations:
    """One rotation at a time."""

    def __init__(self, store: Store, vault: Vault) -> None:
        self._store = store
        self._vault = vault
        self._beginning = asyncio.Lock()
        self._work: asyncio.Task[None] | None = None
        #: Why the last one did not come to its end.
        self._problem: str | None = None

    async def open(self) -> None:
        """Go on with what an earlier daemon did not bring to its end."""
        used = await credentials.counts(self._store)
        if used and self._vault.problem is None:
            with contextlib.suppress(MasterKeyUnusable):
                key = await self._vault.ready()
                if [*used] != [key.newest] or (self._vault.source.ours and len(key.versions) > 1):
                    self._start(key.newest)

    async def close(self) -> None:
        """Leave the rest to the next daemon."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait((self._work,))

    async def begin(
        self, who: Principal, receipt: Receipt | None = None, *, lost: bool = False
    ) -> Rotation:
        """Begin one, unless one is under way; `lost`: also if the old key is gone for good."""
        if not access.may(who, "credential.rotate"):
            raise access.forbidden(who, "credential.rotate")
        async with self._beginning:
            begun = not self.running
            if begun:
                await self._vault.renew(lost=lost)
            shown = await self._show(running=True)
            assert shown.version is not None
            told = record(
                "credential.rotated", who, subject=str(shown.version), begun=begun, lost=lost
            )
            kept = [] if receipt is None else [receipt.statement(202, shown)]
            # Whatever was sealed with an older version is stored before this: nothing of it can
            # appear behind our back.
            await self._store.commit(Write(kept, records=[told]))
            if begun:
                self._start(shown.version)
            return shown

    @property
    def running(self) -> bool:
        """Whether one is under way."""
        return self._work is not None and not self._work.done()

    async def show(self, who: Principal) -> Rotation:
        """Tell how far it is."""
        if not access.may(who, "credential.rotate"):
            raise access.forbidden(who, "credential.rotate")
        return await self._show(running=self.running)

    async def _show(self, *, running: bool) -> Rotation:
        used = await credentials.counts(self._store)
        key = await self._vault.peek()
        newest = None if key is None else key.newest
        left = sum(count for version, count in used.items() if version != newest)
        return Rotation(
            status="running" if running else "failed" if left or self._problem else "done",
            version=newest,
            versions=[] if key is None else key.versions,
            sealed=sum(used.values()) - left,
            left=left,
            to_do=None if running or key is None else self._to_do(left, key.versions[1:]),
        )

    def _to_do(self, left: int, older: list[int]) -> str | None:
        """Say what remains for a person to do."""
        source = self._vault.source
        if self._problem:
            return f"{self._problem}. The daemon's log has the details: agor daemon logs."
        if left:
            return (
                f"{left} are on an older version. Those that cannot be opened are in the daemon's "
                "log (agor daemon logs): store them anew. Then rotate again."
            )
        if source.ours:
            return None
        if older:
            numbers = ", ".join(map(str, older))
            return f"Nothing needs version {numbers} any more: take it out of {source.name}."
        return (
            f"The master key is not agor's to change. For another one, put VERSION:KEY with a "
            f"higher number before what is in {source.name}, and rotate again."
        )

    # ── the work ─────────────────────────────────────────────────────────────────────────────

    def _start(self, newest: int) -> None:
        self._problem = None
        self._work = asyncio.create_task(self._run(newest))

    async def _run(self, newest: int) -> None:
        try:
            sealed, unreadable = await self._seal_all(newest)
            done = record(
                "credential.rotated", subject=str(newest), result="failed" if unreadable else "ok",
                sealed=sealed, unreadable=unreadable,
            )  # fmt: skip
            await _patiently(partial(self._store.commit, Write(records=[done])))
            retired = await _patiently(self._vault.retire)
            log.info(
                "rotated", version=newest, sealed=sealed, unreadable=unreadable, retired=retired
            )
        except AgorError as error:
            self._problem = error.message
            log.error("rotation_failed", why=error.message, hint=error.hint)
        except Exception:
            self._problem = "something went wrong that should not"
            log.exception("rotation_failed")

    async def _seal_all(self, newest: int) -> tuple[int, int]:
        """Seal anew what is not on the newest version; counts them, and those that do not open."""
        sealed = unreadable = 0
        after = ""
        find = partial(credentials.not_sealed_with, self._store, newest, limit=_BATCH)
        while batch := await _patiently(partial(find, after=after)):
            statements = []
            for row in batch:
                try:
                    value = self._vault.unseal(row)
                except MasterKeyUnusable as error:
                    unreadable += 1
                    log.error("credential_not_opened", id=row.credential_id, why=error.message)
                    continue
                statements.append(credentials.reseal(row, self._vault.seal(row, value)))
            if statements:
                await _patiently(partial(self._store.commit, Write(statements)))
            sealed += len(statements)
            after = batch[-1].credential_id
        return sealed, unreadable


async def _patiently(work: Callable[[], Awaitable[T]]) -> T:
    """Do it as soon as the store can: there is no hurry, and nobody waits."""
    while True:
        try:
            return await work()
        except StoreUnavailable:
            await asyncio.sleep(_PAUSE)
