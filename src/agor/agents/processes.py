"""A child process of an agent: its output as text, and an end that leaves nothing behind.

It is started with plain `subprocess`: a start that waits can be cancelled half-way, and would then
leave the child's children behind. The child is reaped only after its process group was killed, so
the group's number cannot belong to anybody else by then.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from agor.errors import AgentFailed

_CHUNK = 64 * 1024
#: Bytes of one read from which on a process is taken to print a lot; then the seconds to wait for
#: more, and the bytes that are given together.
_BURST = 4096
_LINGER = 0.02
_MOST_AT_ONCE = 256 * 1024 - _CHUNK
_TERM_GRACE = 2.0

#: Those that have not ended, for an end that cannot wait.
_live: set[Group] = set()


def kill_all_groups() -> None:
    """Kill every child there is, at once."""
    for group in tuple(_live):
        group.kill()


class Group:
    """A running child that leads a process group of its own, and its end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        _live.add(self)
        self._exited: asyncio.Future[int] = self._loop.create_future()
        self._pidfd = os.pidfd_open(process.pid)
        self._loop.add_reader(self._pidfd, self._on_exit)

    @property
    def pid(self) -> int:
        """Its number, which is its group's as well."""
        return self._process.pid

    @property
    def exited(self) -> bool:
        """Whether it has ended."""
        return self._exited.done()

    async def wait(self) -> int:
        """Wait for its end: the exit code, or minus the signal that killed it."""
        return await asyncio.shield(self._exited)

    def when_exited(self, callback: Callable[[int], object]) -> None:
        """Have this called with what `wait` gives, soon after its end."""
        self._exited.add_done_callback(lambda exited: callback(exited.result()))

    async def stop(self) -> None:
        """End it and its process group: TERM, then KILL."""
        _signal_group(self._process.pid, signal.SIGTERM)
        await asyncio.wait((self._exited,), timeout=_TERM_GRACE)
        # Even if the leader ended, others of its group may not have.
        self.kill()
        await self.wait()
        self._reap()

    def kill(self) -> None:
        """Kill it and its process group, at once."""
        _signal_group(self._process.pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Let go of it once it has ended: from now on its number may be somebody else's."""
        _live.discard(self)
        self._process.wait()
        os.close(self._pidfd)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        # Looked at and left unreaped, see above.
        ended = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        exited = ended.si_code == os.CLD_EXITED
        self._exited.set_result(ended.si_status if exited else -ended.si_status)


class Child(Group):
    """A running child; standard error goes where standard output goes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(process)
        assert process.stdout is not None
        self._stdout = process.stdout
        os.set_blocking(self._stdout.fileno(), False)

    async def output(self) -> AsyncIterator[str]:
        """Give its output piece by piece, until it ends or closes it.

        Bytes that are not UTF-8 are shown as replacements. What it left in the background may hold
        the pipe open for ever, so its own end is the end.
        """
        # Incremental: a character may be split over two reads.
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        while data := await self._read_burst():
            if text := decoder.decode(data):
                yield text
        if rest := decoder.decode(b"", final=True):
            yield rest

    async def stop(self) -> None:
        """End it and its process group, and let go of its output."""
        await super().stop()
        self._stdout.close()

    async def _read_burst(self) -> bytes:
        """Read what is there; if that is much, wait a moment for what follows it."""
        data = await self._read()
        if len(data) < _BURST:
            return data
        pieces, size = [data], len(data)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER):
                while size < _MOST_AT_ONCE and (data := await self._read()):
                    pieces.append(data)
                    size += len(data)
        return b"".join(pieces)

    async def _read(self) -> bytes:
        fd = self._stdout.fileno()
        while True:
            ended = self._exited.done()
            try:
                return os.read(fd, _CHUNK)
            except BlockingIOError:
                if ended:
                    return b""
            readable: asyncio.Future[None] = self._loop.create_future()
            self._loop.add_reader(fd, _wake, readable)
            try:
                await asyncio.wait((readable, self._exited), return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._loop.remove_reader(fd)


@asynccontextmanager
async def child(command: list[str], cwd: str) -> AsyncIterator[Child]:
    """Start a command in its own process group, which ends when the block is left."""
    try:
        process = subprocess.Popen(  # noqa: ASYNC220 - see the top of this file
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise AgentFailed(f"cannot run {command[0]!r}: {error}") from error
    running = Child(process)
    try:
        yield running
    finally:
        # A second cancellation must not leave the group half ended.
        await asyncio.shield(running.stop())


def describe_exit(code: int) -> str:
    """Say how a process ended: by itself, or by a signal."""
    if code >= 0:
        return f"exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"killed by {names.get(-code, f'signal {-code}')}"


def _signal_group(group: int, number: signal.Signals) -> None:
    # EPERM: what is left of it changed its user, and is beyond us.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
