"""The terminals that are open, by their ids and by their sessions; and those that are about to be.

It knows nothing else, so that whoever must not disturb a terminal can ask it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agor.errors import Conflict

if TYPE_CHECKING:
    from agor.daemon.services.terminals.live import LiveTerminal

#: Terminals of one session that may be open.
MOST_OPEN = 8
#: Ends that are remembered of terminals that are not known yet.
_MOST_EARLY = 256


class OpenTerminals:
    """All of them."""

    def __init__(self) -> None:
        self._by_id: dict[str, LiveTerminal] = {}
        self._opening: Counter[str] = Counter()
        #: Exit codes by executor and terminal, of shells that ended before we knew them.
        self._early: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, terminal: LiveTerminal) -> None:
        """Take one in."""
        self._by_id[terminal.terminal_id] = terminal

    def remove(self, terminal: LiveTerminal) -> None:
        """One has ended."""
        self._by_id.pop(terminal.terminal_id, None)

    def get(self, terminal_id: str) -> LiveTerminal | None:
        """Find one."""
        return self._by_id.get(terminal_id)

    def note_early_end(self, executor_id: str, terminal_id: str, exit_code: int) -> None:
        """A shell has ended whose terminal is being opened, or taken back: remember it."""
        self._early[executor_id, terminal_id] = exit_code
        if len(self._early) > _MOST_EARLY:
            del self._early[next(iter(self._early))]

    def early_end(self, terminal: LiveTerminal) -> int | None:
        """Tell with which exit code a terminal's shell ended before we knew it, if it did."""
        return self._early.pop((terminal.row.executor_id, terminal.terminal_id), None)

    def on(self, executor_id: str) -> LiveTerminal | None:
        """Find the one that has this executor."""
        found = (each for each in self.all() if each.row.executor_id == executor_id)
        return next(found, None)

    def of_session(self, session_id: str) -> list[LiveTerminal]:
        """List those of a session."""
        return [each for each in self.all() if each.row.session_id == session_id]

    def all(self) -> list[LiveTerminal]:
        """List all."""
        return list(self._by_id.values())

    def refuse_if_any(self, session_id: str) -> None:
        """Raise `Conflict` if a session has an open terminal."""
        if found := self.of_session(session_id):
            raise Conflict(
                f"a terminal is open there, in the session {session_id}",
                hint=f"Close it first: agor terminal close {found[0].terminal_id}",
            )

    @contextlib.contextmanager
    def room(self, session_id: str) -> Iterator[None]:
        """Keep room for one more of a session, for as long as it is being opened."""
        if len(self.of_session(session_id)) + self._opening[session_id] >= MOST_OPEN:
            raise Conflict(
                f"{MOST_OPEN} terminals of this session are open already",
                hint=f"Close one: agor terminal list {session_id}, agor terminal close ID.",
            )
        self._opening[session_id] += 1
        try:
            yield
        finally:
            self._opening[session_id] -= 1
            if not self._opening[session_id]:
                del self._opening[session_id]
