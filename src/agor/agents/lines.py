"""The lines that an agent's program prints, as they come.

A program may print hundreds at once. Whoever waits for lines alone would take in all of them before
anybody else had a turn, and the first word of an answer would be told with its last one. So others
have their turn every few lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

#: Longest line that is read: a tool's input or result may be megabytes.
LONGEST_LINE = 64 * 1024 * 1024
#: Bytes that are read at once.
_AT_ONCE = 64 * 1024
#: Lines until others have a turn: few enough for the first word, enough to be told together.
_TURN = 8


async def read_lines(
    reader: asyncio.StreamReader, longest: int = LONGEST_LINE
) -> AsyncIterator[bytes]:
    """Give each line without its end; the last one may have had none. Too long is a ValueError."""
    pieces: list[bytes] = []
    held = given = 0
    while data := await reader.read(_AT_ONCE):
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole = b"".join((*pieces, line)) if pieces else line
            pieces.clear()
            held = 0
            yield whole
            given += 1
            if given % _TURN == 0:
                await asyncio.sleep(0)
        if rest:
            pieces.append(rest)
            held += len(rest)
        if held > longest:
            raise ValueError(f"a line of more than {longest} bytes")
    if pieces:
        yield b"".join(pieces)
