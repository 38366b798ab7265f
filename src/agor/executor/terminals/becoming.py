"""Becomes a shell: takes standard input for its controlling terminal, and then is the shell.

Only the leader of a new session can take a terminal, after the fork and before the program. To run
code of ours there is not safe in a process with threads, and the daemon may be one; so it is run
here, in a fresh interpreter that imports next to nothing.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios


def become(program: str, name: str, failure: int) -> None:
    """Be a program under this name. If that fails, the number of the error goes to `failure`."""
    os.set_inheritable(failure, False)
    try:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        _forget_signals()
        os.execv(program, [name])  # noqa: S606 - no shell is involved, it is one
    except OSError as error:
        os.write(failure, str(error.errno).encode())


def _forget_signals() -> None:
    """Undo what the executor, its starter (nohup) or this interpreter ignore or hold back."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


if __name__ == "__main__":
    become(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.exit(1)
