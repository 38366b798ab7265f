"""Find the examples of the documentation: fenced blocks, and commands named in running text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
]
#: Languages whose blocks are run, or given to what they are for.
RUNNABLE = {"sh", "console", "bash", "python", "json", "yaml"}

_FENCE = re.compile(r"^(?P<indent>\s*)(?P<marks>```+|~~~+)\s*(?P<language>[\w-]*)")
_INLINE = re.compile(r"`((?:agor|agor-executor|make) [^`]+)`", re.DOTALL)


class Example(NamedTuple):
    """A fenced block of a document."""

    document: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Where it is, in a form that editors open."""
        return f"{self.document}:{self.line}"


class Mention(NamedTuple):
    """A command named in running text or in a table."""

    document: str
    line: int
    text: str


def name_of(document: Path) -> str:
    """Name a document by its path in the repository."""
    return str(document.relative_to(ROOT))


def examples(document: Path) -> list[Example]:
    """Read the fenced blocks of a document, in order; a block that is not closed is an error."""
    found: list[Example] = []
    opened: re.Match[str] | None = None
    start, lines = 0, list[str]()
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence is not None:
                opened, start, lines = fence, number, []
        elif line.strip() == opened["marks"]:
            text = "".join(f"{each}\n" for each in lines)
            found.append(Example(name_of(document), start, opened["language"], text))
            opened = None
        else:
            lines.append(line.removeprefix(opened["indent"]))
    if opened is not None:
        raise ValueError(f"{name_of(document)}:{start}: this block is not closed")
    return found


def mentions(document: Path) -> list[Mention]:
    """Read the commands that stand in backticks outside of blocks."""
    text = _without_blocks(document.read_text(encoding="utf-8"))
    return [
        Mention(
            name_of(document),
            text.count("\n", 0, match.start()) + 1,
            " ".join(match[1].replace(r"\|", "|").split()),
        )
        for match in _INLINE.finditer(text)
    ]


def _without_blocks(text: str) -> str:
    """Blank out fenced blocks; every other line keeps its number."""
    kept, marks = list[str](), ""
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if marks:
            marks = "" if line.strip() == marks else marks
            kept.append("")
        elif fence is not None:
            marks = fence["marks"]
            kept.append("")
        else:
            kept.append(line)
    return "\n".join(kept)
