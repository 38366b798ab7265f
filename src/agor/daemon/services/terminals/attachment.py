"""One client's hold on a terminal: what it is sent, how far it has it, what it types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agor.daemon.services.terminals.audience import Queue
from agor.daemon.services.terminals.keyboard import Keyboard

if TYPE_CHECKING:
    from agor.daemon.services.terminals.live import LiveTerminal


class Attachment:
    """One client's hold on a terminal."""

    def __init__(self, terminal: LiveTerminal, queue: Queue) -> None:
        self._terminal = terminal
        self._queue = queue
        self.keyboard = Keyboard(terminal.press)
        #: Waits for what the client is to be sent next.
        self.next = queue.next

    @property
    def cursor(self) -> int:
        """All before this place has been sent."""
        return self._queue.taken

    @property
    def is_ending(self) -> bool:
        """Whether the terminal has ended, or is about to: that is what comes last."""
        return self._terminal.ending is not None

    def took(self, size: int) -> None:
        """Say that the client has taken so many bytes more."""
        self._terminal.audience.took(self._queue, size)

    async def resize(self, cols: int, rows: int) -> None:
        """Tell what runs inside how large the client's window is."""
        await self._terminal.resize(cols, rows)

    def leave(self) -> None:
        """Let go."""
        self._terminal.leave(self._queue)
