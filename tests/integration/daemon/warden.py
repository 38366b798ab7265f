"""Stands above a daemon under test, so that whatever it leaves behind comes back here and ends.

A program of its own, not part of the test process: orphans of a killed daemon become its children,
and it ends them all when its input ends, also if the test process itself was killed.

    in   {"command": […], "env": {…}, "log": PATH}    start a daemon
    out  {"pid": N}                                   it is started
         {"pid": N, "ended": CODE}                    it has ended; a signal is a negative code
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
from typing import Any

from agor.linux import become_subreaper, children, kill_family

#: Seconds for what was killed to be gone.
_PATIENCE = 10.0


def main() -> None:
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
            for line in lines:
                daemons.add(_start(**json.loads(line)))
    _end_all()


def _start(command: list[str], env: dict[str, str], log: str) -> int:
    with open(log, "ab") as errors:  # noqa: PTH123 - no imports that are not needed
        daemon = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
            env=env, cwd="/", start_new_session=True,
        )  # fmt: skip
    # Reaped below, like everybody else.
    daemon.returncode = 0
    _tell({"pid": daemon.pid})
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


if __name__ == "__main__":
    main()
