"""The blocks of a conversation, each as its kind is shown while it grows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from agor.cli.markdown import MOST_HELD, Rendered, split
from agor.cli.printable import printable
from agor.cli.screen import PARAGRAPHS

#: Characters of an unfinished piece that are worth being rendered each time it grows.
_MOST_RENDERED = 4000
#: Lines of a tool's result that are shown.
_RESULT_LINES = 5


class BlockView(ABC):
    """One block: `add` and `finish` give what is whole by now, `growing` the rest."""

    #: Blocks of one group stand close together.
    group = PARAGRAPHS
    #: How far to the right it stands.
    depth = 0

    @abstractmethod
    def add(self, text: str) -> Iterator[RenderableType]:
        """Take the next piece."""

    @abstractmethod
    def finish(self) -> Iterator[RenderableType]:
        """Give what is left, when nothing more comes."""

    @property
    def growing(self) -> RenderableType | None:
        """What is not whole yet."""
        return None


class Prose(BlockView):
    """What an agent says, in Markdown."""

    def __init__(self) -> None:
        self._rest = ""
        #: No look for what is complete before it is so long: each look reads all of it.
        self._next_look = 0

    def add(self, text: str) -> Iterator[RenderableType]:
        """Give whole paragraphs, lists and so on."""
        self._rest += printable(text)
        long = len(self._rest) > MOST_HELD
        if long or ("\n" in text and len(self._rest) >= self._next_look):
            done, self._rest = split(self._rest)
            self._next_look = 0 if done else len(self._rest) * 9 // 8
            if done.strip():
                yield Rendered(done)

    def finish(self) -> Iterator[RenderableType]:
        """Give the last one."""
        rest, self._rest = self._rest, ""
        if rest.strip():
            yield Rendered(rest)

    @property
    def growing(self) -> RenderableType | None:
        """The paragraph that is being written."""
        rest = self._rest
        if not rest.strip():
            return None
        if len(rest) > _MOST_RENDERED:
            return Text(rest[-_MOST_RENDERED:])
        return Rendered(rest)


class Lines(BlockView):
    """Text as it is, line by line; the first one may have a mark before it."""

    def __init__(self, style: str = "", mark: str = "", group: str = "lines") -> None:
        self.group = group
        self._style = style
        self._mark = mark
        self._rest = ""

    def add(self, text: str) -> Iterator[RenderableType]:
        """Give whole lines."""
        *lines, self._rest = (self._rest + printable(text)).split("\n")
        for line in lines:
            yield self._styled(line)

    def finish(self) -> Iterator[RenderableType]:
        """Give the last one."""
        rest, self._rest = self._rest, ""
        if rest:
            yield self._styled(rest)

    @property
    def growing(self) -> RenderableType | None:
        """The line that is being written."""
        rest = self._rest[-_MOST_RENDERED:]
        return Text(self._mark + rest, self._style) if rest else None

    def _styled(self, line: str) -> Text:
        mark, self._mark = self._mark, " " * len(self._mark)
        return Text(mark + line, self._style)


class Result(Lines):
    """What a tool gave back: the first lines, and how many more there are."""

    def __init__(self, name: str = "") -> None:
        super().__init__("dim", "  └ ", "tools")
        self._name = f"{name}: " if name else ""
        self._shown = 0
        self._more = 0

    def add(self, text: str) -> Iterator[RenderableType]:
        """Give whole lines, as long as they are few."""
        # A result that stands apart from its call says whose it is.
        name, self._name = self._name, ""
        yield from self._first(super().add(name + text))

    def finish(self) -> Iterator[RenderableType]:
        """Say how much was left out."""
        yield from self._first(super().finish())
        if self._more:
            yield Text(f"    … {self._more} more line{'s' if self._more > 1 else ''}", "dim")

    @property
    def growing(self) -> RenderableType | None:
        """The line that is being written, or how many there are."""
        if self._shown < _RESULT_LINES:
            return super().growing
        return Text(f"    … {self._more} more", "dim") if self._more else None

    def _first(self, lines: Iterator[RenderableType]) -> Iterator[RenderableType]:
        for line in lines:
            if self._shown < _RESULT_LINES:
                self._shown += 1
                if isinstance(line, Text):
                    line.no_wrap, line.overflow = True, "ellipsis"
                yield line
            else:
                self._more += 1


def new_view(kind: str, *, name: str, rendered: bool) -> BlockView:
    """Choose how a kind of block is shown."""
    match kind:
        case "text":
            return Prose() if rendered else Lines(group="text")
        case "thinking":
            return Lines("italic dim", group="thinking")
        case "tool_result":
            return Result(name)
        case "user_message":
            return Lines("bold", "> ", "prompt")
        case "error":
            return Lines("red", group="error")
        case _:
            return Lines("dim", "· ", "notes")
