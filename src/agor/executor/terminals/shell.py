"""A shell on a terminal of its own: how it is started, and an end that leaves nothing of it behind.

Its jobs are process groups of their own and stay in its session, so the session is what is ended.
What has left it with `setsid` wanted to outlive the terminal, and ends with the executor.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

import structlog

from agor import linux
from agor.agents.processes import Group
from agor.errors import AgorError, HandlerFailed, InvalidParams
from agor.executor.terminals import becoming
from agor.executor.terminals.choice import choose_shell, shell_environment
from agor.executor.terminals.pty import Pty
from agor.protocol.launching import Process
from agor.protocol.terminals import SpawnTerminalParams
from agor.protocol.validation import quoted

log = structlog.get_logger("agor.executor")

#: Seconds for the shell to be there.
_START = 10.0
#: Seconds for programs to end by themselves when their terminal hangs up.
_HANG_UP = 2.0
#: Seconds for what was killed to be gone, and how often it is tried.
_KILLED = 1.0
_KILLS = 5
#: Processes whose end is waited for at once: each takes a descriptor.
_WATCHED = 64


class Shell(Group):
    """A running shell, which leads a session of its own on its terminal."""

    def __init__(self, process: subprocess.Popen[bytes], path: str, pty: Pty) -> None:
        super().__init__(process)
        self.path = path
        self.pty = pty

    @classmethod
    async def start(cls, params: SpawnTerminalParams) -> Self:
        """Start the shell that is asked for, as for somebody who logs in."""
        environment = shell_environment(params)
        path = choose_shell(params, environment)
        try:
            pty = Pty(params.cols, params.rows)
        except OSError as error:
            raise HandlerFailed(f"cannot open a terminal: {error.strerror}") from error
        try:
            return await cls._start_on(pty, path, environment | {"SHELL": path}, params)
        except BaseException:
            pty.close()
            raise

    @classmethod
    async def _start_on(
        cls, pty: Pty, path: str, environment: dict[str, str], params: SpawnTerminalParams
    ) -> Self:
        failure, far_failure = os.pipe()
        try:
            try:
                process = _popen(path, params, environment, pty, far_failure)
            finally:
                os.close(far_failure)
            shell = cls(process, path, pty)
            try:
                await shell._wait_started(failure, params)
            except BaseException:
                await asyncio.shield(shell.stop())
                raise
        finally:
            os.close(failure)
        return shell

    async def _wait_started(self, failure: int, params: SpawnTerminalParams) -> None:
        """Wait until it is the shell that runs there, which closes the pipe, or until it cannot."""
        said = self._loop.create_future()
        self._loop.add_reader(failure, _note, said)
        done, _ = await asyncio.wait((said,), timeout=_START)
        self._loop.remove_reader(failure)
        if not done:
            raise HandlerFailed(f"{self.path} has not started within {_START:g} s")
        if number := os.read(failure, 16):
            raise _cannot_run(self.path, int(number), params)

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    def kill(self) -> None:
        """Kill all of its session, at once."""
        linux.kill_session(self.pid)

    async def hang_up(self) -> None:
        """Tell all of its session that the terminal goes, and let them end by themselves."""
        for process in linux.session(self.pid):
            linux.send(process, signal.SIGHUP)
            # One that is stopped would not take note.
            linux.send(process, signal.SIGCONT)
        await self._is_gone_within(_HANG_UP)

    async def stop(self) -> None:
        """End all of its session, by force."""
        gone, rounds = False, 0
        while not gone and rounds < _KILLS:
            self.kill()
            gone, rounds = await self._is_gone_within(_KILLED), rounds + 1
        if not gone:
            log.warning("terminal_outlived", pid=self.pid, why="what is left is not ours to kill")
        if self.exited:
            self._reap()
        else:
            self._exited.add_done_callback(lambda _: self._reap())

    async def _is_gone_within(self, seconds: float) -> bool:
        until = self._loop.time() + seconds
        while left := linux.session(self.pid):
            patience = until - self._loop.time()
            if patience <= 0:
                return False
            await _wait_ended(left[:_WATCHED], patience)
        # What is known of the leader comes from the event loop, a moment later.
        await asyncio.wait((self._exited,), timeout=seconds)
        return True


def _popen(
    path: str, params: SpawnTerminalParams, environment: dict[str, str], pty: Pty, failure: int
) -> subprocess.Popen[bytes]:
    """Start what becomes the shell."""
    # With a dash before its name, it takes itself for the shell of somebody who logs in.
    how = (path, f"-{Path(path).name}", str(failure))
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", becoming.__file__, *how],
            cwd=params.cwd,
            env=environment,
            stdin=pty.far,
            stdout=pty.far,
            stderr=pty.far,
            start_new_session=True,
            pass_fds=(failure,),
        )
    except ValueError as error:  # a zero byte, or a name with `=` in it
        raise InvalidParams(f"params.env: {error}") from error
    except OSError as error:
        if error.filename == params.cwd:
            why = f"params.cwd: cannot go to {quoted(params.cwd)}: {error.strerror}"
            raise InvalidParams(why) from error
        raise HandlerFailed(f"cannot start a terminal: {error.strerror}") from error


def _cannot_run(path: str, number: int, params: SpawnTerminalParams) -> AgorError:
    why = f"{quoted(path)} cannot be run: {os.strerror(number)}"
    if params.shell is not None:
        return InvalidParams(f"params.shell: {why}")
    return HandlerFailed(why, hint="Name another shell.")


async def _wait_ended(processes: list[Process], seconds: float) -> None:
    """Wait until all of these have ended, but no longer than so many seconds."""
    loop = asyncio.get_running_loop()
    ends: dict[int, asyncio.Future[None]] = {}
    try:
        for process in processes:
            try:
                fd = os.pidfd_open(process.pid)
            except ProcessLookupError:
                continue
            ends[fd] = loop.create_future()
            loop.add_reader(fd, _note, ends[fd])
        if ends:
            await asyncio.wait(ends.values(), timeout=seconds)
    finally:
        for fd in ends:
            loop.remove_reader(fd)
            os.close(fd)


def _note(happened: asyncio.Future[None]) -> None:
    # A descriptor that can be read says so until somebody does.
    if not happened.done():
        happened.set_result(None)
