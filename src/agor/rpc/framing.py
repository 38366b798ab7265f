"""Cuts a stream of bytes into lines. Sans-IO: bytes in, lines out.

Invariants, whatever the chunks look like:
- the lines that come out depend on the bytes alone, not on how they were split over reads;
- bytes are framed before they are decoded, so a character split over two reads stays whole;
- at most one line of `max_line` bytes is held back; a longer one is dropped to its end and leaves
  `OVERLONG` in its place, and the lines around it are unharmed.
"""

from __future__ import annotations

#: Stands for a line that was over the cap. It is told by identity; no message looks like it.
OVERLONG = b"(overlong)"


class LineFramer:
    """The unfinished last line of one connection, and the cap on it."""

    __slots__ = ("_max_line", "_overlong", "_partial", "held")

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        self._partial = bytearray()
        self._overlong = False
        #: How many bytes of an unfinished line there are; with 0 the stream may end here.
        self.held = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take what was read; return the lines it completes, without their newlines."""
        lines = data.split(b"\n")
        if self.held:
            lines[0] = self._complete(lines)
        if tail := lines.pop():
            self._hold(tail)
        if len(data) > self._max_line:
            lines = [OVERLONG if len(line) > self._max_line else line for line in lines]
        return lines

    def _hold(self, piece: bytes) -> None:
        self.held += len(piece)
        if self.held > self._max_line:
            self._overlong = True
            self._partial.clear()
        if not self._overlong:
            self._partial += piece

    def _complete(self, lines: list[bytes]) -> bytes:
        """Join what was held with the first piece of a new read."""
        if len(lines) == 1:
            return lines[0]
        self._hold(lines[0])
        line = OVERLONG if self._overlong else bytes(self._partial)
        self._partial.clear()
        self.held = 0
        self._overlong = False
        return line
