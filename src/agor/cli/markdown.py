"""Markdown for terminals: no text is lost in it, and nothing in it steers the terminal."""

from __future__ import annotations

import functools
import re

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`\n]*\n)|~{3,})[^\n]*\n")
#: Lines of code that are shown before the rest of it is there.
_MOST_HELD_LINES = 12
#: Characters of one block that are held back until it is complete.
MOST_HELD = 20_000


class _Code(CodeBlock):
    """Code in the terminal's own colours, which suit light and dark ones."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        syntax = Syntax(
            code, self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True
        )
        yield Padding(syntax, (0, 0, 0, 2))


class _Heading(Heading):
    """A heading where all text begins: to the left."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text
        text.justify = "left"
        text.stylize("bold")
        yield text


class Rendered(Markdown):
    """A piece of Markdown, with line ends where its writer put them."""

    elements = Markdown.elements | {
        "fence": _Code, "code_block": _Code, "heading_open": _Heading,
    }  # fmt: skip

    def __init__(self, text: str) -> None:
        # Links with their addresses in sight: no sequence hides where one leads.
        super().__init__("", hyperlinks=False)
        self.markup = text
        self.parsed = _keep_line_ends(_parser().parse(text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Without the empty lines that some elements have around them."""
        segments = super().__rich_console__(console, options.update(height=None))
        lines = console.render_lines(Group(*segments), options, pad=False)  # type: ignore[arg-type]
        blank = [not "".join(part.text for part in line).strip() for line in lines]
        first = next((number for number, empty in enumerate(blank) if not empty), len(lines))
        last = next((number for number in reversed(range(len(lines))) if not blank[number]), -1)
        for line in lines[first : last + 1]:
            yield from line
            yield Segment.line()


@functools.cache
def _parser() -> MarkdownIt:
    # What would be left out when it is shown is plain text here: tags, and links put elsewhere.
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
    return parser.disable(["reference", "entity"])


def _keep_line_ends(tokens: list[Token]) -> list[Token]:
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return tokens


def split(text: str) -> tuple[str, str]:
    """Cut what is complete from a text that grows: all blocks but the last one.

    Code that grows long is cut at a line, and the rest begins like the whole of it.
    """
    fence = _FENCE.match(text)
    if fence is not None:
        return _split_code(text, fence)
    if len(text) > MOST_HELD:
        whole, _, unfinished = text.rpartition("\n")
        return (f"{whole}\n", unfinished) if whole else (text, "")
    starts = [token.map[0] for token in _parser().parse(text) if token.level == 0 and token.map]
    if len(set(starts)) < 2:
        return "", text
    rest = "\n".join(text.split("\n")[starts[-1] :])
    return text[: len(text) - len(rest)], rest


def _split_code(text: str, fence: re.Match[str]) -> tuple[str, str]:
    first, *lines = text.split("\n")
    for number, line in enumerate(lines[:-1]):
        if line.strip().startswith(fence[1]) and not line.strip().strip(fence[1][0]):
            code = "\n".join((first, *lines[: number + 1]))
            return f"{code}\n", "\n".join(lines[number + 1 :])
    if len(lines) <= _MOST_HELD_LINES:
        return "", text
    whole, _, unfinished = text.rpartition("\n")
    return f"{whole}\n{fence[1]}\n", fence[0] + unfinished
