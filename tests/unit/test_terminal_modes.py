"""What a program switched on in the person's terminal is switched off when it is left."""

from __future__ import annotations

import pytest

from agor.cli.terminal_modes import Modes

PLAIN = b"\x1b[0m\x1b>\x1b(B"


def undone(*pieces: bytes) -> bytes:
    modes = Modes()
    for piece in pieces:
        modes.watch(piece)
    return modes.undo()


def test_plain_output_leaves_nothing_but_colours_to_undo():
    assert undone(b"hello\r\n\x1b[31mred\x1b[2J") == PLAIN


def test_an_editor_is_undone_the_last_first():
    editor = b"\x1b[?1049h\x1b[?2004h\x1b[?1002;1006h\x1b[?25l"
    back = b"\x1b[?25h\x1b[?1006l\x1b[?1002l\x1b[?2004l\x1b[?1049l"
    assert undone(b"before", editor, b"text") == back + PLAIN


def test_what_it_undid_itself_is_not_undone_again():
    assert undone(b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l") == PLAIN


def test_a_sequence_may_be_cut_anywhere():
    whole = b"\x1b[?1049;2004h"
    for place in range(len(whole)):
        assert undone(whole[:place], whole[place:]) == b"\x1b[?2004l\x1b[?1049l" + PLAIN


def test_a_sequence_is_counted_once_although_its_end_is_looked_at_twice():
    assert undone(b"\x1b[?1049h", b"\x1b[?1049l", b"x") == PLAIN


@pytest.mark.parametrize(
    "odd", [b"\x1b[?h", b"\x1b[?;;h", b"\x1b[?99999h", b"\x1b[?" + b"1;" * 500]
)
def test_odd_sequences_do_no_harm(odd: bytes):
    assert undone(odd) == PLAIN


def test_what_is_remembered_is_bounded():
    modes = Modes()
    modes.watch(b"\x1b[?" + b"1" * 1_000_000)
    modes.watch(b"h")
    assert modes.undo() == PLAIN
