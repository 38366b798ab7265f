"""A stream of numbers: lines as long as each other, so the place of a byte says what it must be."""

from __future__ import annotations

from tests.integration.terminals.screens import Screen

LINE = 8
LINES = 200_000
#: Begins when a key is pressed.
COUNT = f"read x; seq -f %07g 1 {LINES}"
#: Where it begins: after `ready`.
BEGIN = len("ready\n")


def counted(begin: int, length: int) -> bytes:
    """What the stream has at a place."""
    first = (begin - BEGIN) // LINE
    lines = b"".join(
        b"%07d\n" % (number + 1) for number in range(first, first + length // LINE + 2)
    )
    start = begin - BEGIN - first * LINE
    return lines[start : start + length]


def check(screen: Screen, begin: int) -> None:
    """What came is what belongs there."""
    assert screen.begin == begin
    assert screen.seen == counted(begin, len(screen.seen))
