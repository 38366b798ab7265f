"""Lists as columns: a table that reads well, and that `grep` and `awk` can read too."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from agor.cli.printable import printable


def print_table(lines: Sequence[tuple[str, ...]]) -> None:
    """Print lines with columns; the first line has their names."""
    console = Console(highlight=False, soft_wrap=True)
    shown = [tuple(printable(cell) for cell in line) for line in lines]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for index, line in enumerate(shown):
        cells = zip(line, widths, strict=True)
        text = "  ".join(f"{cell:<{width}}" for cell, width in cells).rstrip()
        console.print(Text(text, "" if index else "bold"))


def size(count: int | None, *, at_least: bool = False) -> str:
    """Say how many bytes, as people do."""
    if count is None:
        return "?"
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    told = f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
    return f"at least {told}" if at_least else told
