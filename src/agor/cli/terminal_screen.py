"""A person in front of a terminal that is elsewhere: their keys to it, what it prints to them.

Invariants:
- the person's own terminal is left as it was, however this ends;
- keys that the other side does not take are bounded, and the way out works all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Literal

from agor.cli.terminal_keys import Keys
from agor.cli.terminal_modes import Modes
from agor.client.terminals import AttachedTerminal
from agor.errors import Disconnected

#: Keys that wait for the other side; then no more are read.
_MOST_WAITING = 1024 * 1024
_CHUNK = 64 * 1024
_CUT = b"\r\n[cut off; what you typed last may be lost]\r\n"

#: Why it is over: the person left, or the shell ended.
Over = Literal["left", "ended"]


class Screen:
    """The terminal that this program runs in, lent to a shell elsewhere."""

    def __init__(self, attached: AttachedTerminal) -> None:
        self._attached = attached
        self._loop = asyncio.get_running_loop()
        self._keys = Keys()
        self._modes = Modes()
        self._waiting = bytearray()
        self._typed = asyncio.Event()
        self._resized = asyncio.Event()
        self._left = asyncio.Event()

    async def show(self) -> Over:
        """Lend it until the person leaves or the shell ends."""
        with self._raw(), self._watching_size():
            showing = asyncio.create_task(self._show())
            parts = {
                showing,
                asyncio.create_task(self._pass_on()),
                asyncio.create_task(self._follow_size()),
                asyncio.create_task(self._left.wait()),
            }
            try:
                done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
                for part in done:
                    part.result()
                return "ended" if showing in done else "left"
            finally:
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)

    # ── what it prints ───────────────────────────────────────────────────────────────────────

    async def _show(self) -> None:
        async for printed in self._attached:
            self._modes.watch(printed)
            # In a thread: while it is slow to show, the way out must work.
            await asyncio.to_thread(_print, printed)

    # ── what is typed ────────────────────────────────────────────────────────────────────────

    def _read(self) -> None:
        try:
            data = os.read(0, _CHUNK)
        except OSError:
            data = b""
        typed = self._keys.sort(data)
        self._waiting += typed.keys
        if typed.leave or not data:
            self._left.set()
        if typed.leave or not data or len(self._waiting) > _MOST_WAITING:
            self._loop.remove_reader(0)
        self._typed.set()

    async def _pass_on(self) -> None:
        while True:
            await self._typed.wait()
            self._typed.clear()
            full = len(self._waiting) > _MOST_WAITING
            keys = bytes(self._waiting)
            self._waiting.clear()
            try:
                await self._attached.type(keys)
            except Disconnected:
                # It may have arrived or not; the person sees what there is once we are back.
                await asyncio.to_thread(_print, _CUT)
            if full and not self._left.is_set():
                self._loop.add_reader(0, self._read)

    # ── its window ───────────────────────────────────────────────────────────────────────────

    async def _follow_size(self) -> None:
        while True:
            await self._attached.resize(*window())
            await self._resized.wait()
            self._resized.clear()

    @contextlib.contextmanager
    def _watching_size(self) -> Iterator[None]:
        self._loop.add_signal_handler(signal.SIGWINCH, self._resized.set)
        try:
            yield
        finally:
            self._loop.remove_signal_handler(signal.SIGWINCH)

    @contextlib.contextmanager
    def _raw(self) -> Iterator[None]:
        """Have every key as it is typed, the one for an interrupt as well."""
        before = termios.tcgetattr(0)
        tty.setraw(0, termios.TCSADRAIN)
        self._loop.add_reader(0, self._read)
        try:
            yield
        finally:
            self._loop.remove_reader(0)
            # The terminal may be gone, which is how we were ended then.
            with contextlib.suppress(OSError, termios.error):
                _print(self._modes.undo() + b"\r\n")
                termios.tcsetattr(0, termios.TCSADRAIN, before)


def window() -> tuple[int, int]:
    """Tell how many columns and rows ours has; as many as most, if it does not say."""
    try:
        columns, rows = os.get_terminal_size(1)
    except OSError:
        columns, rows = 0, 0
    return columns or 80, rows or 24


def is_at_terminal() -> bool:
    """Tell whether somebody sits here who both reads and types."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
