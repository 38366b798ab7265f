"""The person at the terminal: lines that they type, and whether there is anybody at all.

Nothing that was typed before a question counts as its answer. While nothing is asked, what is typed
is not shown, and only its end (Ctrl-D) means something.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import termios
from collections.abc import Callable
from typing import Self

from rich.console import Console

_LONGEST_LINE = 64 * 1024


class Keyboard:
    """A terminal that is read. Use it as a context manager; it leaves the terminal as it was."""

    def __init__(self, fd: int, console: Console) -> None:
        #: Where questions are shown.
        self.console = console
        #: Called when the person ends the input while nothing is asked.
        self.on_end: Callable[[], None] = lambda: None
        self._fd = fd
        self._before = termios.tcgetattr(fd)
        self._answer: asyncio.Future[str] | None = None

    @classmethod
    def find(cls, output: Console) -> Self | None:
        """Find the person, if there is one who both reads and types."""
        console = output if output.is_terminal else Console(stderr=True, highlight=False)
        if not console.is_terminal:
            return None
        if os.isatty(0):
            return cls(0, console)
        try:
            # The prompt may have come through a pipe, and the person sits here all the same.
            return cls(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY), console)
        except (OSError, termios.error):
            return None

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._fd, self._read)
        self._show_typing(False)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        # The terminal may be gone, which is how we were ended then.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._fd, termios.TCSANOW, self._before)
        if self._fd:
            os.close(self._fd)

    async def ask(self, question: str) -> str | None:
        """Ask for a line; None if the input was ended instead."""
        self._answer = asyncio.get_running_loop().create_future()
        with contextlib.suppress(termios.error):
            termios.tcflush(self._fd, termios.TCIFLUSH)
        self._show_typing(True)
        self.console.print(question, style="bold yellow", end="", markup=False, highlight=False)
        try:
            return await self._answer
        except EOFError:
            self.console.print()
            return None
        finally:
            self._answer = None
            self._show_typing(False)

    def _read(self) -> None:
        try:
            line = os.read(self._fd, _LONGEST_LINE)
        except OSError:
            line = b""
        answer = self._answer
        if answer is None or answer.done():
            if not line:
                self.on_end()
        elif line:
            answer.set_result(line.decode(errors="replace").strip())
        else:
            answer.set_exception(EOFError())

    def _show_typing(self, shown: bool) -> None:
        with contextlib.suppress(termios.error):
            mode = termios.tcgetattr(self._fd)
            mode[3] = mode[3] | termios.ECHO if shown else mode[3] & ~termios.ECHO
            termios.tcsetattr(self._fd, termios.TCSANOW, mode)
