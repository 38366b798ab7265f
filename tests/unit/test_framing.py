"""LineFramer: bytes to lines, whatever the reads look like, within a bound."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.contract.drawn_lines import cut

from agor.rpc.framing import OVERLONG, LineFramer

SETTINGS = settings(max_examples=300, deadline=None, database=None)

#: Mostly newlines and short runs, so that every edge is near.
streams = st.lists(
    st.sampled_from([b"\n", b"a", b"\r", b"\xc3", b"\x00", b"xyz", b"\n\n", b"0123456789"]),
    max_size=40,
).map(b"".join)


def fed(max_line: int, *chunks: bytes) -> tuple[list[bytes | None], int]:
    """Feed chunks; return the lines, with None for those over the cap, and what is held."""
    framer = LineFramer(max_line)
    lines = [line for chunk in chunks for line in framer.feed(chunk)]
    return [None if line is OVERLONG else line for line in lines], framer.held


def expected(max_line: int, data: bytes) -> tuple[list[bytes | None], int]:
    """Say the same in the plainest way, from the whole stream."""
    *lines, rest = data.split(b"\n")
    return [line if len(line) <= max_line else None for line in lines], len(rest)


@SETTINGS
@given(max_line=st.integers(1, 12), data=streams, places=st.lists(st.integers(0, 200), max_size=10))
@example(max_line=3, data=b"abc\nabcd\nabc\n", places=[3, 4, 8])
@example(max_line=3, data=b"abcdefgh\n\nab", places=[1, 2, 3, 4, 5])
def test_lines_depend_on_the_bytes_and_not_on_the_reads(
    max_line: int, data: bytes, places: list[int]
):
    assert fed(max_line, *cut(data, places)) == expected(max_line, data)


@SETTINGS
@given(max_line=st.integers(1, 12), data=streams)
def test_one_byte_at_a_time_is_no_exception(max_line: int, data: bytes):
    assert fed(max_line, *(bytes([byte]) for byte in data)) == expected(max_line, data)


def test_a_line_of_exactly_the_cap_passes_and_one_byte_more_does_not():
    assert fed(4, b"abcd\nabcde\nabcd\n") == ([b"abcd", None, b"abcd"], 0)
    assert fed(4, b"abc", b"d\nabcd", b"e\n") == ([b"abcd", None], 0)


def test_a_line_that_spells_the_mark_is_not_taken_for_it():
    for chunks in ([OVERLONG + b"\n"], [OVERLONG[:3], OVERLONG[3:] + b"\n"], [OVERLONG, b"\n"]):
        assert fed(100, *chunks) == ([b"(overlong)"], 0)


def test_after_a_line_over_the_cap_everything_is_as_before():
    framer = LineFramer(4)
    assert framer.feed(b"far too long") == []
    assert framer.feed(b" and longer still") == []
    (over, short) = framer.feed(b"\nok\nth")
    assert over is OVERLONG
    assert short == b"ok"
    assert framer.held == 2
    assert framer.feed(b"en\n") == [b"then"]


def test_only_newlines_end_a_line():
    assert fed(100, b"a\rb\x0bc\x0cd\x85e\xe2\x80\xa8f\n") == (
        [b"a\rb\x0bc\x0cd\x85e\xe2\x80\xa8f"],
        0,
    )


def test_what_is_held_is_counted_even_when_it_is_dropped():
    framer = LineFramer(4)
    framer.feed(b"abc")
    assert framer.held == 3
    framer.feed(b"defghi")
    assert framer.held == 9


@pytest.mark.parametrize("piece", [1, 2, 3, 1000])
def test_a_held_line_takes_little_more_memory_than_its_bytes(piece: int):
    size = 300_000
    pieces = [b"x" * piece for _ in range(size // piece)]
    framer = LineFramer(size * 2)
    tracemalloc.start()
    for one in pieces:
        framer.feed(one)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert framer.held == size
    assert held < size * 3


@pytest.mark.parametrize("piece", [1, 1000, 1_000_000])
def test_a_line_over_the_cap_is_not_kept(piece: int):
    framer = LineFramer(1000)
    chunk = b"x" * piece
    framer.feed(b"x" * 2000)
    tracemalloc.start()
    for _ in range(2_000_000 // max(piece, 1000)):
        framer.feed(chunk)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 10_000
