"""A command in a real pseudo-terminal: what it shows, what is typed, how it ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.integration.processes import PATIENCE, Mark

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """One command, with the terminal as its standard streams and its controlling terminal."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process = process
        self._fd = fd
        self._seen = b""

    @property
    def text(self) -> str:
        """Everything it has shown so far, without colours and movements of the cursor."""
        return _CONTROL.sub("", self._seen.decode(errors="replace"))

    @property
    def raw(self) -> bytes:
        """Everything it has sent."""
        return self._seen

    def wait_for(self, text: str, times: int = 1, patience: float = PATIENCE) -> None:
        """Wait until it has shown this text, so many times."""
        shown = self.wait_until(lambda text_so_far: text_so_far.count(text) >= times, patience)
        assert shown, f"{text!r} was not shown:\n{self.text}"

    def wait_until(self, enough: Callable[[str], bool], patience: float = PATIENCE) -> bool:
        """Read on until all it has shown is enough; tell whether that came before its end."""
        deadline = time.monotonic() + patience
        while not enough(self.text):
            if not self._read(deadline):
                return False
        return True

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._fd, keys.encode())

    def resize(self, cols: int, rows: int) -> None:
        """Make its window larger or smaller."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))

    def wait_ended(self, patience: float = PATIENCE) -> int:
        """Read to the end, and return its exit code."""
        deadline = time.monotonic() + patience
        while self._read(deadline):
            pass
        try:
            return self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end:\n{self.text[-2000:]}") from None

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._fd, 64 * 1024)
        except OSError as error:
            # This is how Linux tells that nobody has the other side open any more.
            if error.errno != errno.EIO:
                raise
            data = b""
        self._seen += data
        return bool(data)


@contextlib.contextmanager
def terminal(
    command: list[str],
    mark: Mark,
    env: dict[str, str],
    *,
    cwd: Path | None = None,
    end_all: bool = True,
) -> Iterator[Terminal]:
    """Run a command in a new terminal; it ends with the block, and all that has its mark."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        # The new session has no terminal yet; opening one makes it the controlling one.
        ["setsid", "--ctty", *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=mark.env | {"TERM": "xterm-256color", "COLUMNS": "100"} | env,
        cwd=cwd,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        if end_all:
            mark.end_all()
        os.close(ours)
