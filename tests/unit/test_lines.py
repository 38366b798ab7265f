"""The lines of a program: whole however they come, bounded, and not before everything else."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agor.agents.lines import read_lines


def reader_of(*pieces: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    for piece in pieces:
        reader.feed_data(piece)
    reader.feed_eof()
    return reader


async def lines_in(reader: asyncio.StreamReader, longest: int = 1 << 20) -> list[bytes]:
    return [line async for line in read_lines(reader, longest)]


@given(text=st.binary(max_size=200).map(lambda text: text.replace(b"\xff", b"\n")), data=st.data())
def test_lines_are_the_same_however_they_are_cut(text: bytes, data: st.DataObject):
    async def read() -> list[bytes]:
        reader = asyncio.StreamReader()
        reading = asyncio.create_task(lines_in(reader))
        at = 0
        while at < len(text):
            size = data.draw(st.integers(1, len(text) - at))
            reader.feed_data(text[at : at + size])
            at += size
            await asyncio.sleep(0)
        reader.feed_eof()
        return await reading

    expected = text.split(b"\n")
    assert asyncio.run(read()) == (expected if expected[-1] else expected[:-1])


async def test_a_long_line_comes_whole_and_one_that_is_too_long_does_not():
    assert await lines_in(reader_of(b"x" * 300_000, b"\ny")) == [b"x" * 300_000, b"y"]
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        await lines_in(reader_of(b"ok\n", b"x" * 1001), longest=1000)


async def test_whoever_waits_for_a_line_has_it_before_the_rest_of_a_burst_is_taken_in():
    taken: asyncio.Queue[bytes] = asyncio.Queue()
    told_at: list[int] = []
    count = 0

    async def take_in() -> None:
        nonlocal count
        async for line in read_lines(reader_of(b"line\n" * 1000)):
            count += 1
            taken.put_nowait(line)

    async def tell() -> None:
        for _ in range(1000):
            await taken.get()
            told_at.append(count)

    await asyncio.gather(take_in(), tell())
    assert told_at[0] < 20
    assert max(at - number for number, at in enumerate(told_at)) < 20
