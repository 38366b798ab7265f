"""A pseudo-terminal: a pair of descriptors, the far one for a shell, this one for us."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import termios

#: More than the kernel gives at once.
_READ = 16 * 1024
#: Characters may have several bytes: a backspace removes all of one. Not in `termios` by name.
_IUTF8 = 0o40000


class Pty:
    """An open pair. Both ends stay open here: else reading fails once no program has the far one.

    A program may close it and open it again later, and reading would have ended in between.
    """

    def __init__(self, cols: int, rows: int) -> None:
        self.near, self.far = os.openpty()
        os.set_blocking(self.near, False)
        modes = termios.tcgetattr(self.far)
        modes[0] |= _IUTF8
        termios.tcsetattr(self.far, termios.TCSANOW, modes)
        #: Whether somebody with the power to do so has cut the two ends apart.
        self.cut = False
        self.closed = False
        self.resize(cols, rows)

    def resize(self, cols: int, rows: int) -> None:
        """Set the window's size; the program in the foreground is told if it changed."""
        fcntl.ioctl(self.near, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read(self, limit: int) -> bytes:
        """Read what is there now, in one piece of at most so many bytes."""
        pieces: list[bytes] = []
        while limit > 0:
            try:
                piece = os.read(self.near, min(limit, _READ))
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                self.cut = True
                break
            pieces.append(piece)
            limit -= len(piece)
        return b"".join(pieces)

    def write(self, data: memoryview) -> int:
        """Write as much as is taken now, and tell how much that was."""
        written = 0
        with contextlib.suppress(BlockingIOError):
            while written < len(data):
                written += os.write(self.near, data[written:])
        return written

    def close(self) -> None:
        """Hang up: what still has the far end can neither read nor write there any more."""
        if not self.closed:
            self.closed = True
            os.close(self.near)
            os.close(self.far)
