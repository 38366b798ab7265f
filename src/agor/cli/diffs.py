"""Changes of files as coloured lines, never more than a person can look through."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from rich.text import Text

from agor.cli.printable import printable
from agor.cli.tool_calls import Change

#: Lines of a change that are shown in between.
DIFF_LINES = 40
#: Lines of one text that are compared, which takes the square of them. The others are all told.
_MOST_COMPARED = 500
_CONTEXT = 2
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def diff_lines(changes: Iterable[Change], most: int) -> list[Text]:
    """Show changes, and how many lines of them are not shown."""
    several = list(changes)
    lines: list[Text] = []
    left_out = 0
    for change in several:
        if len(several) > 1:
            lines.append(Text(printable(change.path), "bold"))
        told = list(_lines_of(change))
        room = max(0, most - len(lines))
        lines += [_coloured(line) for line in told[:room]]
        left_out += len(told[room:])
    if left_out:
        lines.append(Text(f"… {left_out} more lines", "dim"))
    return lines


def _lines_of(change: Change) -> Iterator[str]:
    if change.diff is not None:
        # The names of the files are said already.
        for line in change.diff.splitlines():
            if not line.startswith(("--- ", "+++ ", "diff --git ", "index ")):
                yield line
        return
    old, new = change.old.splitlines(), change.new.splitlines()
    if not old:
        yield from (f"+{line}" for line in new)
        return
    found = difflib.unified_diff(
        old[:_MOST_COMPARED], new[:_MOST_COMPARED], n=_CONTEXT, lineterm=""
    )
    for number, line in enumerate(found):
        # Two lines of names; and where a part begins is not known, only that something is between.
        if number > 2:
            yield "…" if line.startswith("@@") else line
    yield from (f"-{line}" for line in old[_MOST_COMPARED:])
    yield from (f"+{line}" for line in new[_MOST_COMPARED:])


def _coloured(line: str) -> Text:
    return Text(printable(line).expandtabs(4), _STYLES.get(line[:1], "dim"))
