"""Stands above a daemon under test, so that whatever it leaves behind comes back here and ends.

A process of its own, not part of the test process: orphans of a killed daemon become its children,
and it ends them all when its input ends, also if the test process itself was killed. It comes from
the nursery, where all that a daemon needs is imported, and forks the daemons.

    in   {"arguments": […], "env": {…}, "log": PATH}  start `agor` with these
    out  {"pid": N}                                   it is started
         {"pid": N, "ended": CODE}                    it has ended; a signal is a negative code

What is started anew, imports and all, is seen in /proc with its own environment: `"cold": true`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from agor.cli.main import main as agor
from agor.linux import become_subreaper, children, kill_family

#: Seconds for what was killed to be gone.
_PATIENCE = 10.0
#: More descriptors than we ever have.
_MOST_OPEN = 256


def main() -> None:
    """Stand there; in what is forked, become the daemon."""
    arguments = _stand()
    if arguments is not None:
        sys.argv[1:] = arguments
        agor()


def _stand() -> list[str] | None:
    """Start daemons and tell of their ends. Returns in a daemon, with its arguments."""
    become_subreaper()
    # Ctrl-C is for the test process; we end with it, in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    unread, daemons = b"", set[int]()
    while True:
        ready, _, _ = select.select([0, woken.fileno()], [], [])
        if woken.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
            _reap(daemons)
        if 0 in ready:
            data = os.read(0, 64 * 1024)
            if not data:
                break
            *lines, unread = (unread + data).split(b"\n")
            for order in map(json.loads, lines):
                pid = _start_cold(**order) if order.pop("cold") else _fork(**order)
                if pid == 0:
                    arguments: list[str] = order["arguments"]
                    return arguments
                daemons.add(pid)
                _tell({"pid": pid})
    _end_all()
    return None


def _fork(arguments: list[str], env: dict[str, str], log: str) -> int:
    if pid := os.fork():
        return pid
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for fd, path, flags in ((0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY | os.O_APPEND)):
        opened = os.open(path, flags)
        os.dup2(opened, fd)
        os.close(opened)
    os.dup2(1, 2)
    os.closerange(3, _MOST_OPEN)
    os.environ.clear()
    os.environ.update(env)
    os.chdir("/")
    return 0


def _start_cold(arguments: list[str], env: dict[str, str], log: str) -> int:
    with Path(log).open("ab") as errors:
        daemon = subprocess.Popen(
            [sys.argv[0], *arguments],
            stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
            env=env, cwd="/", start_new_session=True,
        )  # fmt: skip
    # Reaped below, like everybody else.
    daemon.returncode = 0
    return daemon.pid


def _reap(daemons: set[int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if pid in daemons:
                daemons.remove(pid)
                _tell({"pid": pid, "ended": os.waitstatus_to_exitcode(status)})


def _end_all() -> None:
    deadline = time.monotonic() + _PATIENCE
    while (left := children(os.getpid())) and time.monotonic() < deadline:
        kill_family(left)
        _reap(set())
        time.sleep(0.01)


def _tell(message: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
