"""Terminals, as people use them: list, look at, attach to, close.

A terminal runs as the owner of its session. So it is the owner's alone, and an admin can only
close it, to free the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from agor.daemon.services import views
from agor.daemon.services.access import Action
from agor.daemon.services.audit.records import record
from agor.daemon.services.live import LiveSessions
from agor.daemon.services.principal import Principal
from agor.daemon.services.terminals.attachment import Attachment
from agor.daemon.services.terminals.endings import Endings
from agor.daemon.services.terminals.live import LiveTerminal
from agor.daemon.services.terminals.registry import MOST_OPEN, OpenTerminals
from agor.daemon.store import terminals
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import TerminalRow
from agor.errors import Conflict, NotFound
from agor.protocol.api import Page
from agor.protocol.terminal_api import Terminal
from agor.protocol.validation import quoted

#: More than a session can have, those that are kept included.
_MOST = 100 + MOST_OPEN
#: Seconds in which it should be known how a terminal ended.
_NEWS = 15.0


class Terminals:
    """The terminals of all sessions."""

    def __init__(
        self, store: Store, lives: LiveSessions, opened: OpenTerminals, endings: Endings
    ) -> None:
        self._store = store
        self._lives = lives
        self._opened = opened
        self._endings = endings

    async def of_session(self, who: Principal, session_id: str) -> Page[Terminal]:
        """List a session's terminals, the newest first: those that are open, and the last ended."""
        await self._lives.get_for(who, session_id, "terminal.use")
        rows = await terminals.of_session(self._store, session_id, _MOST)
        return Page(items=[self._view(row) for row in rows])

    def open_of(self, who: Principal) -> Page[Terminal]:
        """List somebody's own terminals that are open, the newest first."""
        mine = [each.row for each in self._opened.all() if each.row.user_id == who.user_id]
        mine.sort(key=lambda row: (row.created_at, row.terminal_id), reverse=True)
        return Page(items=[self._view(row) for row in mine])

    async def get(self, who: Principal, terminal_id: str) -> Terminal:
        """Show a terminal."""
        return self._view(await self._find(who, terminal_id, "terminal.use"))

    async def close(self, who: Principal, terminal_id: str) -> None:
        """Close a terminal with all that runs in it; one that has ended is closed already."""
        await self._find(who, terminal_id, "terminal.close")
        terminal = self._opened.get(terminal_id)
        if terminal is not None:
            await self._endings.close(terminal, f"closed by {who.name}", who)

    async def close_session(self, session_id: str, why: str, who: Principal | None) -> None:
        """Close all terminals of a session."""
        closing = [
            self._endings.close(each, why, who) for each in self._opened.of_session(session_id)
        ]
        await asyncio.gather(*closing)

    async def session_of(self, terminal_id: str) -> str:
        """Tell in which session a terminal is, whoever asks; raises `NotFound`."""
        return (await self._row(terminal_id)).session_id

    @contextlib.asynccontextmanager
    async def attach(
        self, who: Principal, terminal_id: str, after: int
    ) -> AsyncIterator[Attachment]:
        """Attach a client who has all before a place, for as long as the block lasts."""
        row = await self._find(who, terminal_id, "terminal.use")
        terminal = await self._open_one(terminal_id)
        terminal.refuse_if_full()
        attached = record(
            "terminal.attached", who, session_id=row.session_id, subject=terminal_id,
            shell=row.shell,
        )  # fmt: skip
        await self._store.commit(Write(records=[attached]))
        attachment = await terminal.attach(after)
        try:
            yield attachment
        finally:
            attachment.leave()

    async def _open_one(self, terminal_id: str) -> LiveTerminal:
        """Find one that is open; of one that is ending, who asks is told how it ended."""
        terminal = self._opened.get(terminal_id)
        if terminal is not None and terminal.ending is not None:
            await asyncio.wait((terminal.ending,), timeout=_NEWS)
            terminal = self._opened.get(terminal_id)
        if terminal is None:
            row = await self._row(terminal_id)
            raise Conflict(
                f"this terminal has ended: {row.how}", hint="Open another one in its session."
            )
        return terminal

    async def _find(self, who: Principal, terminal_id: str, action: Action) -> TerminalRow:
        row = await self._row(terminal_id)
        try:
            await self._lives.get_for(who, row.session_id, action)
        except NotFound:
            # Its session has another name: to tell it would tell that there is such a terminal.
            raise _missing(terminal_id) from None
        return row

    async def _row(self, terminal_id: str) -> TerminalRow:
        live = self._opened.get(terminal_id)
        row = await terminals.get(self._store, terminal_id) if live is None else live.row
        if row is None:
            raise _missing(terminal_id)
        return row

    def _view(self, row: TerminalRow) -> Terminal:
        live = self._opened.get(row.terminal_id)
        return views.terminal(row, 0 if live is None else len(live.audience))


def _missing(terminal_id: str) -> NotFound:
    return NotFound(f"there is no terminal {quoted(terminal_id)}")
