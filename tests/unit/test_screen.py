"""What is drawn below and wiped away again: it leaves no trace in what stays."""

from __future__ import annotations

import asyncio
import io
import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from agor.cli import screen
from agor.cli.view import EventView
from agor.protocol.events import BlockComplete, BlockDelta, BlockStart

MARKDOWN = (
    "# Head\n\nSome **bold** text that is long enough to be wrapped where the terminal is narrow.\n"
    "\n- one\n- two\n  - three\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\n"
    + "".join(f"x = {n}\n" for n in range(30))
    + "```\n\nThe end, with 世界 in it."
)
_MOVES = re.compile(r"\x1b\[([0-9]*)([A-Za-z])|\x1b\[\?25[lh]")


def on_paper(sent: str) -> list[str]:
    """What a terminal without end shows of what was sent to it."""
    rows, row, column, place = [""], 0, 0, 0
    while place < len(sent):
        if move := _MOVES.match(sent, place):
            count, what = int(move[1] or 1), move[2]
            assert what in (None, "A", "K"), f"{move[0]!r} is not known here"
            row -= count if what == "A" else 0
            assert row >= 0, "above the first line"
            rows[row] = "" if what == "K" else rows[row]
            place = move.end()
            continue
        letter, place = sent[place], place + 1
        if letter == "\n":
            row, column = row + 1, 0
            rows += [""] * (row + 1 - len(rows))
        elif letter == "\r":
            column = 0
        else:
            rows[row] = rows[row].ljust(column)[:column] + letter
            column += 1
    return [line.rstrip() for line in rows]


async def drawn(pieces: list[str], *, pauses: set[int]) -> list[str]:
    """Show a text piece by piece, drawing as often as can be; some of it with a pause."""
    console = Console(
        file=io.StringIO(), force_terminal=True, color_system=None, width=40, height=12,
        _environ={"TERM": "xterm"},
    )  # fmt: skip
    with EventView(console) as view:
        view.doing("answering")
        view.show(BlockStart("b", "text"))
        for number, piece in enumerate(pieces):
            view.show(BlockDelta("b", number, piece))
            # The next drawing is due at once.
            await asyncio.sleep(0)
            if number in pauses:
                view.note("something else")
        view.show(BlockComplete("b", len(pieces), 0))
        view.doing("")
    assert isinstance(console.file, io.StringIO)
    return on_paper(console.file.getvalue())


@pytest.fixture(autouse=True, scope="module")
def often():
    """Draw whenever there is time."""
    before, screen._INTERVAL = screen._INTERVAL, 0.0
    yield
    screen._INTERVAL = before


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, len(MARKDOWN)), max_size=40), st.sets(st.integers(0, 40)))
def test_what_was_drawn_meanwhile_leaves_no_trace(places, pauses):
    edges = sorted({0, *places, len(MARKDOWN)})
    pieces = [MARKDOWN[a:b] for a, b in itertools.pairwise(edges)]
    shown = asyncio.run(drawn(pieces, pauses=pauses))
    at_once = asyncio.run(drawn([MARKDOWN], pauses=set()))
    said = [line for line in shown if line and line != "something else"]
    assert said == [line for line in at_once if line]
    assert shown.count("something else") == len(pauses & set(range(len(pieces))))


def test_while_it_grows_the_last_lines_are_in_sight():
    async def look() -> str:
        console = Console(file=io.StringIO(), force_terminal=True, width=40, height=12)
        view = EventView(console)
        view.resume()
        view.show(BlockStart("b", "text"))
        for number in range(50):
            view.show(BlockDelta("b", number, f"line {number}\n"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert isinstance(console.file, io.StringIO)
        sight = "\n".join(on_paper(re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue()))[-14:])
        view.pause()
        return sight

    sight = asyncio.run(look())
    assert "line 49" in sight
    assert "line 20\n" not in sight
