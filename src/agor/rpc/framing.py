"""Cuts a stream of bytes into lines. Sans-IO: bytes in, lines out.

Invariants, whatever the chunks look like:
- the lines that come out depend on the bytes alone, not on how they were split over reads;
- bytes are framed before they are decoded, so a character split over two reads stays whole;
- at most one line of `max_line` bytes is held back; a longer one is dropped to its end and leaves
  `None` in its place, and the lines around it are unharmed.
"""

from __future__ import annotations


class LineFramer:
    """The unfinished last line of one connection, and the cap on it."""

    __slots__ = ("_max_line", "_overlong", "_partial", "_size")

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        # Pieces, joined once: adding to one buffer byte by byte would copy it each time.
        self._partial: list[bytes] = []
        self._size = 0
        self._overlong = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Take what was read; return the lines it completes, without their newlines."""
        lines: list[bytes | None] = data.split(b"\n")  # type: ignore[assignment]
        if self._size:
            lines[0] = self._complete(lines)
        if tail := lines.pop():
            self._hold(tail)
        if len(data) > self._max_line:
            lines = [None if line and len(line) > self._max_line else line for line in lines]
        return lines

    @property
    def held(self) -> int:
        """How many bytes of an unfinished line there are; 0 means the stream may end here."""
        return self._size

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._max_line:
            self._overlong = True
            self._partial.clear()
        if not self._overlong:
            self._partial.append(piece)

    def _complete(self, lines: list[bytes | None]) -> bytes | None:
        """Join what was held with the first piece of a new read."""
        first = lines[0] or b""
        if len(lines) == 1:
            return first
        self._hold(first)
        line = None if self._overlong else b"".join(self._partial)
        self._partial.clear()
        self._size = 0
        self._overlong = False
        return line
