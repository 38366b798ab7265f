"""A command on this machine, in a session and process group of its own.

It is started with plain `subprocess`: a start that waits can be cancelled half-way, and would then
leave processes behind. It is reaped only after its group was killed, so the group's number cannot
belong to anybody else by then.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from typing import NamedTuple

from agor.environments.commands import RunningCommand
from agor.environments.identity import UnixIdentity
from agor.environments.impersonation import Launch, signal_group
from agor.environments.pipes import PipeReader, PipeWriter
from agor.errors import CommandTimedOut, EnvironmentFailed

_TERM_GRACE = 2.0
_KILL_GRACE = 5.0


class LocalCommand(RunningCommand):
    """A running command. `on_closed` is called when nothing of it is left to end."""

    def __init__(
        self,
        launch: Launch,
        identity: UnixIdentity,
        timeout: float | None,
        on_closed: Callable[[LocalCommand], None],
    ) -> None:
        self._identity = identity
        self._timeout = timeout
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[int] = self._loop.create_future()
        self._timed_out = False
        self._ending: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._reaped = False
        started = _start(launch)
        self._process = started.process
        self._pidfd = started.pidfd
        self.stdin: PipeWriter = PipeWriter(started.stdin, self._exited)
        self.stdout: PipeReader = PipeReader(started.stdout, self._exited, self._check_time)
        self.stderr: PipeReader = PipeReader(started.stderr, self._exited, self._check_time)
        self._loop.add_reader(self._pidfd, self._on_exit)
        self._timer = None if timeout is None else self._loop.call_later(timeout, self._on_timeout)

    async def wait(self) -> int:
        """Wait for its end."""
        code = await asyncio.shield(self._exited)
        if self._timed_out and self._ending:
            await asyncio.shield(self._ending)
        self._check_time()
        return code

    async def kill(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal to the group, which is known to be ours until it is reaped."""
        if not self._reaped:
            await signal_group(self._identity, self._process.pid, number)

    async def close(self) -> None:
        """End what is left. A cancellation of the caller does not stop it half-way."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self._end_group()
        finally:
            if self._timer:
                self._timer.cancel()
            self.stdin.abandon()
            self.stdout.close()
            self.stderr.close()
        self._reap()
        self._on_closed(self)

    async def _end_group(self) -> None:
        """End the group; whoever comes second waits for the first."""
        if self._ending is None:
            self._ending = self._loop.create_task(self._term_and_kill())
        await asyncio.shield(self._ending)

    async def _term_and_kill(self) -> None:
        if not self._exited.done():
            await self.kill(signal.SIGTERM)
            await asyncio.wait((self._exited,), timeout=_TERM_GRACE)
        # Even if the leader ended, others of its group may not have.
        await self.kill(signal.SIGKILL)
        await asyncio.wait((self._exited,), timeout=_KILL_GRACE)
        if not self._exited.done():
            error = EnvironmentFailed(
                f"process {self._process.pid} did not end within {_KILL_GRACE:g} s of KILL",
                hint="It may wait for a device or run as another user; look at it with ps.",
            )
            # Whoever waits for it must not wait for ever.
            self._exited.set_exception(error.again())
            self._exited.exception()
            raise error

    def _reap(self) -> None:
        self._reaped = True
        self._process.wait()
        os.close(self._pidfd)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        # Looked at and left unreaped, see above.
        ended = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        exited = ended.si_code == os.CLD_EXITED
        if not self._exited.done():
            self._exited.set_result(ended.si_status if exited else -ended.si_status)
        if self._closing and self._closing.done():
            # Given up on, and gone after all.
            self._reap()
            self._on_closed(self)

    def _on_timeout(self) -> None:
        if not self._exited.done():
            self._timed_out = True
            self._ending = self._ending or self._loop.create_task(self._term_and_kill())

    def _check_time(self) -> None:
        if self._timed_out:
            raise CommandTimedOut(
                f"the command did not end within {self._timeout:g} s, and was ended"
            )


class _Started(NamedTuple):
    """A process, and our ends of its pipes."""

    process: subprocess.Popen[bytes]
    pidfd: int
    stdin: int
    stdout: int
    stderr: int


def _start(launch: Launch) -> _Started:
    fds: list[int] = []
    try:
        for _ in range(3):
            fds += os.pipe()
        its_in, our_in, our_out, its_out, our_err, its_err = fds
        if "user" in launch.become:
            # Else it could not open its own /dev/stdin or /dev/stderr.
            for fd in (its_in, its_out, its_err):
                os.fchown(fd, launch.become["user"], launch.become["group"])
        if launch.first_input:
            os.write(our_in, launch.first_input)
        process = subprocess.Popen(
            launch.argv,
            env=launch.env,
            stdin=its_in,
            stdout=its_out,
            stderr=its_err,
            start_new_session=True,
            **launch.become,
        )
        pidfd = _pidfd_of(process)
    except OSError as error:
        for fd in fds:
            os.close(fd)
        raise EnvironmentFailed(
            f"cannot start {launch.argv[0]}: {error.strerror or error}",
            hint="Too long a command, too many processes or open files, or it is not installed.",
        ) from error
    for fd in (its_in, its_out, its_err):
        os.close(fd)
    return _Started(process, pidfd, our_in, our_out, our_err)


def _pidfd_of(process: subprocess.Popen[bytes]) -> int:
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        # Too many open files. We could not look after it, so it must not run.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
