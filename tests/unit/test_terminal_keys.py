"""Keys typed into a terminal elsewhere: what the shell gets, and how one leaves."""

from __future__ import annotations

import pytest

from agor.cli.terminal_keys import Keys, Typed


def typed(*pieces: bytes) -> list[Typed]:
    keys = Keys()
    return [keys.sort(piece) for piece in pieces]


@pytest.mark.parametrize(
    "keys", [b"ls\r", b"\x03", b"\x1b[A", bytes(range(0x1D)), b"\xff\x00d", b""]
)
def test_the_shell_gets_what_is_typed(keys: bytes):
    assert typed(keys) == [Typed(keys)]


def test_ctrl_bracket_and_d_leave_and_what_follows_is_nobodys():
    assert typed(b"echo\x1ddls\r") == [Typed(b"echo", leave=True)]


def test_the_two_keys_may_come_in_two_pieces():
    assert typed(b"x\x1d", b"d") == [Typed(b"x"), Typed(b"", leave=True)]


def test_ctrl_bracket_twice_is_typed_once_and_does_not_leave():
    assert typed(b"\x1d\x1dd") == [Typed(b"\x1dd")]


def test_another_key_after_ctrl_bracket_is_typed_with_it():
    assert typed(b"\x1d", b"x\x1d", b"y") == [Typed(b""), Typed(b"\x1dx"), Typed(b"\x1dy")]
