"""Where a conversation is shown: lines that stay, and below them what is still being written.

In a terminal the lower part is drawn anew as it grows; whatever is whole is printed once and never
touched again, so nothing flickers and nothing is lost. Elsewhere there is no lower part.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

_INDENT = 2
_TAB = 8
_PER_SECOND = 10
#: Lines of the terminal that the lower part leaves to what was before.
_LEFT = 4


class Screen:
    """Prints what is whole, and draws what is not. Use it as a context manager."""

    def __init__(self, console: Console) -> None:
        self.console = console
        #: Whether it can be drawn on, and Markdown is worth being rendered.
        self.rendered = console.is_terminal and not console.is_dumb_terminal
        #: Gives what is still being written; asked from the thread that draws.
        self.growing: Callable[[], RenderableType | None] = lambda: None
        #: What is going on; empty, if nothing is.
        self.doing = ""
        self.hint = ""
        self.began = time.monotonic()
        self._live: Live | None = None
        self._spinner = Spinner("dots", style="blue")
        self._last = ""

    def __enter__(self) -> Self:
        self.resume()
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()

    def pause(self) -> None:
        """Leave the terminal to somebody else, to ask a question for example."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def resume(self) -> None:
        """Take it back."""
        if self.rendered and self._live is None:
            self._live = Live(
                console=self.console, get_renderable=self._below, transient=True,
                refresh_per_second=_PER_SECOND, redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._live.start()

    def print(self, what: RenderableType, *, group: str = "", depth: int = 0) -> None:
        """Print something that is whole; an empty line goes between different groups."""
        if self._last and (group != self._last or group == "block"):
            self.console.print()
        self._last = group
        indent = depth * _INDENT
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

    def forget_group(self) -> None:
        """What comes next is separated from what was before, whatever it is."""
        self._last = self._last and "block"

    def _below(self) -> RenderableType:
        parts: list[RenderableType] = []
        growing = self.growing()
        if growing is not None:
            parts.append(_Bottom(growing))
        if self.doing:
            seconds = f"{time.monotonic() - self.began:.0f} s"
            words = " · ".join(filter(None, (self.doing, seconds, self.hint)))
            line = Text(words, "dim", no_wrap=True, overflow="ellipsis")
            self._spinner.update(text=line)
            parts.append(self._spinner)
        return Group(*parts)


class _Bottom:
    """The last lines of something, as many as there is room for."""

    def __init__(self, what: RenderableType) -> None:
        self._what = what

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(1, console.size.height - _LEFT)
        lines = console.render_lines(self._what, options.update(height=None), pad=False)
        for line in lines[-room:]:
            yield from line
            yield Segment.line()
