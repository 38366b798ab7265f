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
from typing import NoReturn

import msgspec

from agor.agents.scratch import remove_abandoned
from agor.executor.launcher.child import run_plan
from agor.executor.launcher.descriptors import keep_only
from agor.executor.launcher.plan import Plan, make_executor
from agor.executor.launcher.rehearsal import rehearse_plan
from agor.linux import become_subreaper, children, kill_family
from agor.protocol.launching import MAX_PACKET, ExitReport, Process

#: Bytes that a log may have; then its older half is dropped.
LOG_BYTES = 256 * 1024
_CHUNK = 64 * 1024
#: The longest report of a birth: a pid, or an error's number below zero.
BIRTH_BYTES = 20
#: Seconds to end what the executor left behind.
_SWEEP = 5.0
#: Changed by the launcher; an executor begins with none of its handlers.
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def fork_keeper() -> tuple[int, socket.socket]:
    """Fork a keeper that waits for its executor's task; its pid, and the line to it."""
    line, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            # Another session: a signal to the launcher's group is none of our business.
            os.setsid()
            keep_only({0, 1, 2, far.fileno()})
            _Keeper(far).keep()
        except BaseException:  # noqa: BLE001 - a forked child must never return into its parent's code
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    far.close()
    return pid, line


class _Keeper:
    def __init__(self, launcher: socket.socket) -> None:
        self._launcher = launcher
        self._log = -1
        self._report = -1
        self._status: int | None = None
        self._executor = 0
        # What the executor is to inherit: it has no time for this.
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        empty = os.open(os.devnull, os.O_RDWR)
        os.dup2(empty, 0)
        os.close(empty)
        self._errors, self._errors_writer = os.pipe()
        os.set_blocking(self._errors, False)
        self._wake, self._wake_writer = socket.socketpair()
        self._wake.setblocking(False)
        self._wake_writer.setblocking(False)
        become_subreaper()
        rehearse_plan()
        self._ahead = make_executor()

    def keep(self) -> NoReturn:
        """Look after an executor, and end with it."""
        packet, fds, _, _ = socket.recv_fds(self._launcher, MAX_PACKET, 64)
        if not packet:
            os._exit(0)  # The launcher is gone or wants no more of us.
        self._fork(packet, fds)
        self._launcher.close()
        self._watch()
        left_behind = self._sweep()
        remove_abandoned()
        while self._copy_errors():
            pass
        self._tell_end(left_behind)
        os._exit(0)

    def _fork(self, packet: bytes, fds: list[int]) -> None:
        listener, self._log, self._report, *groups = fds
        plan = Plan(packet, listener, groups, self._ahead)
        plan.put_mark()
        try:
            self._executor = os.fork()
        except OSError as error:
            self._report_birth(-(error.errno or errno.EAGAIN))
            os._exit(1)
        if self._executor == 0:
            run_plan(plan, self._errors_writer)
        self._report_birth(self._executor)
        self._prepare_watch()
        plan.close()

    def _report_birth(self, number: int) -> None:
        # Without a launcher it is looked after all the same.
        with contextlib.suppress(OSError):
            self._launcher.sendall(b"%d" % number)

    def _prepare_watch(self) -> None:
        os.close(self._errors_writer)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._pass_on)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wake_writer.fileno())

    def _watch(self) -> None:
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
        # A set: on a busy machine it takes a while to die, and who has not yet is killed again.
        killed: set[Process] = set()
        deadline = time.monotonic() + _SWEEP
        while left := children(os.getpid()):
            killed |= kill_family(left)
            if time.monotonic() > deadline:
                break
            select.select([self._wake], [], [], 0.05)
            self._reap()
        # Who died since is no more of those that live, and is to be gone when the end is told.
        self._reap()
        return len(killed)

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
