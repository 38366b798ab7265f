"""The keeper of one executor: reads its standard error, reaps its tree, reports its end.

Invariants:
- when a keeper has ended by itself, nothing of its executor is left;
- the log it writes is bounded, whatever the executor writes;
- it depends on nobody: with the launcher dead it does the same.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import sys
import time
from typing import NamedTuple, NoReturn

import msgspec

from agor.executor.launcher.child import run_executor
from agor.executor.launcher.descriptors import keep_only
from agor.linux import become_subreaper, children, kill_family
from agor.protocol.launching import ExitReport

#: Bytes that a log may have; then its older half is dropped.
LOG_BYTES = 256 * 1024
_CHUNK = 64 * 1024
#: Seconds to end what the executor left behind.
_SWEEP = 5.0


class Lines(NamedTuple):
    """The launcher's ends of the lines to a keeper and to its executor."""

    keeper: socket.socket
    executor: socket.socket

    def close(self) -> None:
        """Hang up; who has no task yet ends then."""
        self.keeper.close()
        self.executor.close()


def fork_keeper() -> tuple[int, Lines]:
    """Fork a keeper with an executor that waits for its task; its pid, and the lines to both."""
    keeper, to_keeper = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    executor, to_executor = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            # Another session: a signal to the launcher's group is none of our business.
            os.setsid()
            keep_only({0, 1, 2, to_keeper.fileno(), to_executor.fileno()})
            _Keeper(to_keeper, to_executor).keep()
        except BaseException:  # noqa: BLE001 - a forked child must never return into its parent's code
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    to_keeper.close()
    to_executor.close()
    return pid, Lines(keeper, executor)


class _Keeper:
    def __init__(self, launcher: socket.socket, to_executor: socket.socket) -> None:
        self._launcher = launcher
        self._log = -1
        self._report = -1
        self._status: int | None = None
        self._errors, errors = os.pipe()
        self._executor = os.fork()
        if self._executor == 0:
            run_executor(to_executor, errors)
        self._launcher.sendall(b"%d" % self._executor)
        to_executor.close()
        os.close(errors)
        os.set_blocking(self._errors, False)
        become_subreaper()
        self._wake, wake = socket.socketpair()
        self._wake.setblocking(False)
        wake.setblocking(False)
        self._wake_writer = wake
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._pass_on)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(wake.fileno())

    def keep(self) -> NoReturn:
        """Look after the executor, and end with it."""
        if not self._take_task():
            # The launcher is gone or wants no more of us.
            os.kill(self._executor, signal.SIGKILL)
        poll = select.poll()
        poll.register(self._wake.fileno(), select.POLLIN)
        poll.register(self._errors, select.POLLIN)
        # It may have ended before anybody would have woken us.
        self._reap()
        while self._status is None:
            for fd, _ in poll.poll():
                if fd == self._errors:
                    if not self._copy_errors():
                        poll.unregister(self._errors)
                else:
                    self._reap()
        left_behind = self._sweep()
        while self._copy_errors():
            pass
        self._tell_end(left_behind)
        os._exit(0)

    def _take_task(self) -> bool:
        _, fds, _, _ = socket.recv_fds(self._launcher, 1, 2)
        self._launcher.close()
        if len(fds) < 2:
            return False
        self._log, self._report = fds
        return True

    def _pass_on(self, number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._executor, number)

    # ── what the executor says and how it ends ───────────────────────────────────────────────

    def _copy_errors(self) -> bool:
        """Append what was written to standard error to the log. False if nothing more will come."""
        try:
            text = os.read(self._errors, _CHUNK)
        except BlockingIOError:
            return self._status is None
        if self._log >= 0 and text:
            with contextlib.suppress(OSError):
                append_bounded(self._log, text)
        return bool(text)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._executor:
                self._status = status

    def _sweep(self) -> int:
        """End what the executor left behind: all of it has come back to us."""
        killed, deadline = 0, time.monotonic() + _SWEEP
        while left := children(os.getpid()):
            killed += kill_family(left)
            if time.monotonic() > deadline:
                break
            select.select([self._wake], [], [], 0.05)
            self._reap()
        return killed

    def _tell_end(self, left_behind: int) -> None:
        if self._report < 0:
            return
        assert self._status is not None
        code = os.waitstatus_to_exitcode(self._status)
        report = ExitReport(
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            left_behind=left_behind,
            survivors=len(children(os.getpid())),
        )
        with contextlib.suppress(OSError):
            os.pwrite(self._report, msgspec.json.encode(report), 0)


def append_bounded(fd: int, text: bytes, most: int = LOG_BYTES) -> None:
    """Append to a log; if it gets too long, only its newer half is kept."""
    size = os.fstat(fd).st_size
    if size + len(text) > most:
        kept = (os.pread(fd, most, max(0, size - most // 2)) + text)[-most // 2 :]
        os.ftruncate(fd, 0)
        size, text = 0, kept
    while text:
        try:
            written = os.pwrite(fd, text, size)
        except OSError as error:
            if error.errno == errno.EINTR:
                continue
            raise
        size, text = size + written, text[written:]
