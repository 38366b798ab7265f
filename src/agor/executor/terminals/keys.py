"""What is typed into a terminal: taken in order, as fast as the program there reads."""

from __future__ import annotations

import asyncio
from collections import deque

from agor.errors import HandlerFailed, Overloaded
from agor.executor.terminals.pty import Pty
from agor.protocol.forms import Nothing

#: Calls that may wait for a program that does not read, each with `MAX_INPUT` bytes at most. Those
#: of all terminals together must leave room for other calls on their connection.
MAX_CALLS = 16


class _Typed:
    """The rest of what one call typed."""

    def __init__(self, rest: memoryview) -> None:
        self.rest = rest
        self.taken: asyncio.Future[Nothing] = asyncio.get_running_loop().create_future()


class Keys:
    """The way in of one terminal."""

    def __init__(self, pty: Pty) -> None:
        self._pty = pty
        self._waiting: deque[_Typed] = deque()
        self._ended: HandlerFailed | None = None

    def type(self, data: bytes) -> Nothing | asyncio.Future[Nothing]:
        """Type; a future, which is done when all of it is taken, if that is not at once.

        Who cancels that has typed as much as was taken until then.
        """
        if self._ended is not None:
            raise self._ended.again()
        view = memoryview(data)
        if not self._waiting:
            view = view[self._pty.write(view) :]
            if not view:
                return Nothing()
            asyncio.get_running_loop().add_writer(self._pty.near, self._go_on)
        elif len(self._waiting) >= MAX_CALLS:
            raise Overloaded(
                "what was typed before is not taken: the program in the terminal does not read",
                hint="Wait for answers before typing more, or close the terminal.",
            )
        typed = _Typed(view)
        self._waiting.append(typed)
        typed.taken.add_done_callback(lambda _: self._withdraw(typed))
        return typed.taken

    def end(self, why: HandlerFailed) -> None:
        """Take no more, and tell those who wait why not."""
        if self._ended is not None:
            return
        self._ended = why
        if self._waiting:
            asyncio.get_running_loop().remove_writer(self._pty.near)
        for typed in self._waiting:
            if not typed.taken.done():
                typed.taken.set_exception(why.again())
        self._waiting.clear()

    def _go_on(self) -> None:
        """Write what is taken now; called when some of it may be."""
        for typed in tuple(self._waiting):
            if typed.taken.done():
                continue
            typed.rest = typed.rest[self._pty.write(typed.rest) :]
            if typed.rest:
                return
            typed.taken.set_result(Nothing())

    def _withdraw(self, typed: _Typed) -> None:
        """Forget what was taken, or is no longer wanted."""
        if typed in self._waiting:
            self._waiting.remove(typed)
            if not self._waiting:
                asyncio.get_running_loop().remove_writer(self._pty.near)
