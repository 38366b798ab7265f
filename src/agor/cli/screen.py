"""Where a conversation is shown: lines that stay, and below them what is still being written.

In a terminal the lower part is wiped away and drawn anew, together with what is printed above it in
one write, from one thread: so nothing flickers, and no line that stays is touched again. Elsewhere
there is no lower part.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rich.console import Console, RenderableType
from rich.control import Control
from rich.padding import Padding
from rich.segment import ControlType, Segment, Segments
from rich.spinner import Spinner
from rich.text import Text

#: The group whose members have empty lines between them, too.
PARAGRAPHS = "paragraphs"
_INDENT = 2
_TAB = 8
#: Seconds between two drawings.
_INTERVAL = 0.1
#: Lines of the terminal that the lower part leaves to what was before.
_LEFT = 4


class Screen:
    """Prints what is whole, and draws what is not, between `resume` and `pause`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        #: Whether it can be drawn on, and Markdown is worth being rendered.
        self.rendered = console.is_terminal and not console.is_dumb_terminal
        #: Gives what is still being written.
        self.growing: Callable[[], RenderableType | None] = lambda: None
        #: What is going on; empty, if nothing is.
        self.doing = ""
        self.hint = ""
        self._began = time.monotonic()
        self._spinner = Spinner("dots", style="blue")
        #: The group that was printed last.
        self._last = ""
        self._drawing = False
        #: Lines that are drawn now.
        self._drawn = 0
        self._timer: asyncio.TimerHandle | None = None

    def resume(self) -> None:
        """Begin to draw."""
        if self.rendered and not self._drawing:
            self._drawing = True
            self.console.show_cursor(False)
            self._tick()

    def pause(self) -> None:
        """Wipe the lower part away, and leave the terminal to somebody else."""
        if self._drawing:
            self._drawing = False
            if self._timer is not None:
                self._timer.cancel()
            with self.console:
                self._wipe()
                self.console.show_cursor(True)

    def print(self, what: RenderableType, *, group: str = "", depth: int = 0) -> None:
        """Print something that is whole; an empty line goes between different groups."""
        with self.console:
            self._wipe()
            if self._last and (group != self._last or group == PARAGRAPHS):
                self.console.print()
            self._last = group
            self._print(what, depth * _INDENT)
            self._draw()

    def set_apart(self) -> None:
        """Have an empty line before what comes next, whatever it is."""
        if self._last:
            self._last = PARAGRAPHS

    def _print(self, what: RenderableType, indent: int) -> None:
        if self.rendered:
            if isinstance(what, Text):
                # Their width is not known before.
                what.expand_tabs(_TAB)
            # Wrapped: of a bare text the console makes another one, which may be broken.
            self.console.print(Padding(what, (0, 0, 0, indent), expand=False))
        else:
            if isinstance(what, Text):
                what.pad_left(indent)
            self.console.print(what, soft_wrap=True)

    # ── the lower part ───────────────────────────────────────────────────────────────────────

    def _tick(self) -> None:
        with self.console:
            self._wipe()
            self._draw()
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL, self._tick)

    def _wipe(self) -> None:
        if self._drawn:
            up = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2))
            self.console.control(Control(ControlType.CARRIAGE_RETURN, *(up * self._drawn)))
            self._drawn = 0

    def _draw(self) -> None:
        if not self._drawing:
            return
        lines: list[list[Segment]] = []
        growing = self.growing()
        if growing is not None:
            room = max(1, self.console.size.height - _LEFT)
            lines += self.console.render_lines(growing, pad=False)[-room:]
        if self.doing:
            lines += self.console.render_lines(self._status(), pad=False)
        ended = [segment for line in lines for segment in (*line, Segment.line())]
        self.console.print(Segments(ended), end="")
        self._drawn = len(lines)

    def _status(self) -> RenderableType:
        seconds = f"{time.monotonic() - self._began:.0f} s"
        words = " · ".join(filter(None, (self.doing, seconds, self.hint)))
        self._spinner.update(text=Text(words, "dim", no_wrap=True, overflow="ellipsis"))
        return self._spinner
