"""`agor-executor --errand`: one command for the daemon, run as whoever we are, to its end.

It is how a daemon that is not root runs git as somebody else: sudo lets it run this program as that
user, and nothing else. One line of JSON on standard input says what to run; after that, standard
input is a lifeline. When it ends, the daemon has given up or is gone, and the command is ended with
its whole process group.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from typing import Any

_LONGEST_ORDER = 64 * 1024
_TERM_GRACE_MS = 1000
#: As in a shell: no such program; it cannot be run, or its folder cannot be entered.
_MISSING, _UNUSABLE, _BAD_ORDER = 127, 126, 2


def run_errand() -> int:
    """Read the order, run it, and give its exit code."""
    try:
        order = json.loads(_read_line())
        command, env, folder = order["command"], order["env"], order["cwd"]
    except (ValueError, KeyError, TypeError):
        return _say("this is no order for an errand", _BAD_ORDER)
    # The umask of a login: what git makes is the person's, as if made by hand.
    os.umask(0o022)
    try:
        os.chdir(folder)
    except OSError as error:
        return _say(f"cannot enter {folder}: {error.strerror}", _UNUSABLE)
    try:
        child = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, start_new_session=True
        )  # fmt: skip
    except FileNotFoundError:
        return _say(f"{command[0]}: there is no such program", _MISSING)
    except (OSError, ValueError, TypeError) as error:
        return _say(f"cannot run {command[0]}: {error}", _UNUSABLE)
    return _mind(child)


def _mind(child: subprocess.Popen[bytes]) -> int:
    pidfd = os.pidfd_open(child.pid)
    if not _ends_before_the_lifeline(pidfd):
        _signal(child, signal.SIGTERM)
        _wait(pidfd, _TERM_GRACE_MS)
    # Before it is reaped: its number is its own until then.
    _signal(child, signal.SIGKILL)
    code = child.wait()
    return 128 - code if code < 0 else code


def _ends_before_the_lifeline(pidfd: int) -> bool:
    both: Any = select.poll()
    both.register(pidfd, select.POLLIN)
    both.register(0, select.POLLIN | select.POLLHUP)
    return any(fd == pidfd for fd, _ in both.poll())


def _wait(pidfd: int, milliseconds: int) -> None:
    ended: Any = select.poll()
    ended.register(pidfd, select.POLLIN)
    ended.poll(milliseconds)


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def _read_line() -> bytes:
    # Unbuffered and no further than the line: what follows is not for us to read.
    line = bytearray()
    while len(line) < _LONGEST_ORDER:
        piece = os.read(0, 1)
        if piece in (b"\n", b""):
            break
        line += piece
    return bytes(line)


def _say(why: str, code: int) -> int:
    sys.stderr.write(f"{why}\n")
    return code
