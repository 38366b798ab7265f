"""Executors forked from a process that has imported what agents need, as the launcher forks them.

Importing takes longer than most tests, and would be done anew for each. What `executor.main` is
given is its own all the same: arguments, environment, standard streams and the listening socket.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

from agor.agents import registry
from agor.executor import main as executor
from tests.integration.executor_process import ExecutorProcess
from tests.integration.processes import PATIENCE, Mark

_LARGEST = 64 * 1024
_ROOT = Path(__file__).parents[2]


def start_warm(*, path: Path, env: dict[str, str]) -> ExecutorProcess:
    """Start an executor on a socket that listens already."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(16)
        mark = Mark()
        return ExecutorProcess(Forked(listener.fileno(), mark.on(env)), mark, path)


class Forked:
    """A process that is not our child: its guardian tells us about it."""

    stdin: IO[bytes] | None = None
    stdout: IO[bytes] | None = None

    def __init__(self, listener: int, env: dict[str, str]) -> None:
        news, told = os.pipe()
        errors, log = os.pipe()
        packet = json.dumps(env).encode()
        socket.send_fds(_nursery(), [packet], [listener, log, told])
        os.close(told)
        os.close(log)
        self.stderr: IO[bytes] | None = os.fdopen(errors, "rb")
        self._news = os.fdopen(news, "rb")
        self.pid = int(self._news.readline())
        self._code: int | None = None

    def poll(self) -> int | None:
        """Give its exit code, if it has ended."""
        if self._code is None and select.select([self._news], [], [], 0)[0]:
            self._code = os.waitstatus_to_exitcode(int(self._news.readline()))
            self._news.close()
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        if self._code is None:
            select.select([self._news], [], [], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired("agor-executor", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


@functools.cache
def _nursery() -> socket.socket:
    """Start the process that is forked from; it ends when we do."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        fd = theirs.fileno()
        command = [sys.executable, "-m", "tests.agents.nursery", str(fd)]
        process = subprocess.Popen(command, cwd=_ROOT, pass_fds=(fd,), stdin=subprocess.DEVNULL)

    @atexit.register
    def close() -> None:
        ours.close()
        process.wait(PATIENCE)

    return ours


# ── the process that is forked from ──────────────────────────────────────────────────────────


def _serve(line: socket.socket) -> None:
    registry.import_ahead()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        packet, fds, _, _ = socket.recv_fds(line, _LARGEST, 3)
        if not packet:
            return
        if os.fork() == 0:
            line.close()
            _guard(json.loads(packet), *fds)
        for fd in fds:
            os.close(fd)


def _guard(env: dict[str, str], listener: int, log: int, told: int) -> None:
    """Start the executor and tell of its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if (pid := os.fork()) == 0:
        os.close(told)
        _execute(env, listener, log)
    os.close(listener)
    os.close(log)
    os.write(told, b"%d\n" % pid)
    os.write(told, b"%d\n" % os.waitpid(pid, 0)[1])
    os._exit(0)


def _execute(env: dict[str, str], listener: int, log: int) -> None:
    code = 1
    try:
        os.setsid()
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.environ.clear()
        os.environ.update(env)
        code = executor.main(["--listen-fd", str(listener)])
    except BaseException:  # noqa: BLE001 - a forked child must never return into its parent's code
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
