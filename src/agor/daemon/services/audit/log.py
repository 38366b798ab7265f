"""The audit log, as people look at it: page by page, and verified."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import Struct

from agor.daemon.services import access
from agor.daemon.services.audit.anchors import AnchorFile
from agor.daemon.services.audit.records import DAEMON, STRANGER
from agor.daemon.services.audit.verification import verify_part
from agor.daemon.services.people.people import People
from agor.daemon.services.principal import Principal
from agor.daemon.store import audit
from agor.daemon.store.base import Store
from agor.daemon.store.rows import AuditRow
from agor.errors import Unprocessable
from agor.protocol.api import Page
from agor.protocol.audit import AuditEntry, AuditVerification
from agor.protocol.validation import quoted


class Wanted(Struct, frozen=True, kw_only=True):
    """Which records somebody wants to see; all of it must hold."""

    user_id: str | None = None
    #: By name; also `daemon` and `stranger`, who are nobody.
    user: str | None = None
    session_id: str | None = None
    #: Whole, or up to a dot.
    action: str | None = None
    after: int | None = None
    before: int | None = None


class AuditLog:
    """What happened, for those who may know it."""

    def __init__(self, store: Store, people: People, anchors: AnchorFile) -> None:
        self._store = store
        self._people = people
        self._anchors = anchors
        #: One at a time: each keeps a reader of the database and a processor busy.
        self._verifying = asyncio.Lock()

    async def page(
        self, who: Principal, wanted: Wanted, cursor: str | None, limit: int
    ) -> Page[AuditEntry]:
        """List records, the newest first."""
        _refuse_others(who)
        rows = await audit.page(
            self._store,
            actor=self._actor(wanted),
            session_id=wanted.session_id,
            action=wanted.action,
            after=wanted.after,
            before=wanted.before,
            below=_read_cursor(cursor),
            limit=limit + 1,
        )
        more = len(rows) > limit
        shown = rows[:limit]
        return Page(
            items=[entry_of(row) for row in shown],
            next_cursor=str(shown[-1].number) if more else None,
        )

    async def verify(self, who: Principal, cursor: str | None) -> AuditVerification:
        """Verify a part of the log."""
        _refuse_others(who)
        async with self._verifying:
            anchors = await asyncio.to_thread(self._anchors.read)
            return await verify_part(self._store, anchors, cursor)

    def _actor(self, wanted: Wanted) -> tuple[str | None, str | None] | None:
        if wanted.user_id is not None and wanted.user is not None:
            raise Unprocessable("user: there is user_id already, which says the same")
        if wanted.user_id is not None:
            return wanted.user_id, None
        if wanted.user is None:
            return None
        row = self._people.named(wanted.user)
        if row is None and wanted.user not in (DAEMON, STRANGER):
            raise Unprocessable(
                f"user: nobody is called {quoted(wanted.user)}",
                hint=f"What nobody did is found by {DAEMON} and {STRANGER}.",
            )
        return None if row is None else row.user_id, wanted.user


def entry_of(row: AuditRow) -> AuditEntry:
    """Show a record."""
    return AuditEntry(
        number=row.number,
        at=row.at,
        user_id=row.actor_id,
        actor=row.actor,
        action=row.action,
        session_id=row.session_id,
        subject=row.subject,
        result=row.result,
        detail=_detail(row.detail),
        hash=row.hash.hex(),
    )


def _detail(detail: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(detail, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # Somebody has changed it. It is shown as far as it goes; `verify` says the rest.
        return {"unreadable": detail.decode(errors="replace")}


def _refuse_others(who: Principal) -> None:
    if not access.may(who, "audit.view"):
        raise access.forbidden(who, "audit.view")


def _read_cursor(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not cursor.isdecimal() or not cursor.isascii() or len(cursor) > 18:
        raise Unprocessable(
            "cursor: this is none of ours", hint="Use next_cursor of the answer before, as it is."
        )
    return int(cursor)
