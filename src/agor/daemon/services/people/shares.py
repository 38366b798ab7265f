"""Shares: what lets one person into a session of another, to look or to prompt.

A session runs as its owner and on its owner's keys, whoever prompts: only the owner can share it.
"""

from __future__ import annotations

from collections.abc import Callable

from agor.daemon.services.audit.records import record
from agor.daemon.services.line import Entry
from agor.daemon.services.live import LiveSession, LiveSessions, Turn
from agor.daemon.services.people.people import People
from agor.daemon.services.people.revocations import Lost, Revocations
from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import now
from agor.daemon.store import shares
from agor.daemon.store.base import Store
from agor.daemon.store.rows import ShareRow
from agor.errors import Conflict, NotFound, Unprocessable
from agor.protocol.shares import NewShare, Share
from agor.protocol.validation import quoted

#: People that one session can be shared with.
_MOST = 1000


class Shares:
    """Who may come into whose sessions."""

    def __init__(
        self, store: Store, lives: LiveSessions, people: People, revocations: Revocations
    ) -> None:
        self._store = store
        self._lives = lives
        self._people = people
        self._revocations = revocations
        #: Told when somebody may do less in a session than before.
        self.on_less: list[Callable[[], None]] = []

    async def all_of(self, who: Principal, session_id: str) -> list[Share]:
        """List whom a session is shared with."""
        await self._lives.get_for(who, session_id, "session.view")
        return [self._show(row) for row in await shares.of_session(self._store, session_id)]

    async def put(self, who: Principal, session_id: str, user_id: str, new: NewShare) -> Share:
        """Share a session with somebody, or change what they may do in it."""
        session = await self._lives.get_for(who, session_id, "session.share")
        async with Turn(session) as live:
            if user_id == live.row.user_id:
                raise Unprocessable("user_id: a session needs no share for its owner")
            person = self._people.get(user_id)
            if person.disabled_at is not None:
                raise Conflict(f"{person.name} is disabled", hint="Enable the account first.")
            if len(live.shares) >= _MOST and user_id not in live.shares:
                raise Conflict(f"this session is shared with {_MOST} people already")
            row = ShareRow(
                session_id=session_id,
                user_id=user_id,
                access=new.access,
                created_by=who.user_id,
                created_at=now(),
                session_created_at=live.row.created_at,
            )
            entry = Entry([shares.put(row)])
            entry.records.append(
                record(
                    "share.set", who, session_id=session_id, subject=person.name, access=new.access
                )
            )
            await self._commit(live, entry)
            before = live.shares.get(user_id)
            live.shares[user_id] = new.access
        if (before, new.access) == ("prompt", "view"):
            self._tell_less()
        return self._show(row)

    async def remove(self, who: Principal, session_id: str, user_id: str) -> None:
        """Share a session with somebody no more; what they follow and do there ends."""
        session = await self._lives.get_for(who, session_id, "session.share")
        async with Turn(session) as live:
            if user_id not in live.shares:
                raise NotFound(f"this session is not shared with {quoted(user_id)}")
            entry = Entry([shares.remove(session_id, user_id)])
            subject = self._people.get(user_id).name
            entry.records.append(
                record("share.removed", who, session_id=session_id, subject=subject)
            )
            await self._commit(live, entry)
            del live.shares[user_id]
        self._revocations.tell(Lost(user_id=user_id, session_id=session_id))
        self._tell_less()

    def _tell_less(self) -> None:
        for listener in self.on_less:
            listener()

    async def _commit(self, live: LiveSession, entry: Entry) -> None:
        await live.commit(entry, current=live.current, queue=live.queue)

    def _show(self, row: ShareRow) -> Share:
        return Share(
            session_id=row.session_id,
            user_id=row.user_id,
            name=self._people.get(row.user_id).name,
            access=row.access,
            created_at=row.created_at,
        )
