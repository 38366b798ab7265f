"""One process that writes, and the socket to it: started, greeted, heard, ended."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from typing import Protocol, cast

from agor.daemon.store.sqlite.file import DatabaseFile
from agor.daemon.store.sqlite.frames import (
    Answer,
    NotReady,
    Opening,
    Ready,
    Splitter,
    frame,
)
from agor.errors import StoreError, StoreUnavailable

#: Seconds for the process to come up, on a busy machine.
_START_SECONDS = 30.0
#: Seconds for it to end once it was told to, and once it was killed.
_END_SECONDS, _KILL_SECONDS = 5.0, 1.0
#: Seconds between two looks whether it has.
_LOOK_SECONDS = 0.002
#: The same where it may take hours.
_IDLE_LOOK_SECONDS = 0.1
#: What the process may know of our environment: the language, and where temporary files go.
_ALLOWED = ("LANG", "LC_ALL", "TMPDIR", "SQLITE_TMPDIR")
_COMMAND = (sys.executable, "-P", "-m", "agor.daemon.store.sqlite.writing")


class Master(Protocol):
    """Whoever it writes for."""

    def take(self, answer: Answer) -> None:
        """Take what the process has to say, once it is up."""

    def lose(self, lost: Process) -> None:
        """The process is gone, or at least its socket is."""


def spawn(end: socket.socket, lock: int) -> subprocess.Popen[bytes]:
    """Start a process that writes, and that holds the lock on the database as well."""
    return subprocess.Popen(
        _COMMAND,
        stdin=end.fileno(),
        stdout=subprocess.DEVNULL,
        # So that another daemon waits until this process has ended, too.
        pass_fds=(lock,),
        env={name: os.environ[name] for name in _ALLOWED if name in os.environ},
        cwd="/",
        start_new_session=True,
    )


async def start(file: DatabaseFile, master: Master, *, available: bool = True) -> Process:
    """Start one for a file that is claimed; raises if it does not come up.

    `available` is whether the database could be written at last; if not, it looks by itself.
    """
    assert file.lock is not None
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            # Not in a thread: it takes two milliseconds, and there may be no thread to be had.
            popen = spawn(theirs, file.lock)
        except OSError as error:
            ours.close()
            raise StoreUnavailable(
                f"the process that writes to the database cannot be started: {error}",
                hint=f"Can {sys.executable} be run, and is there memory left?",
            ) from error
    process = Process(popen, master)
    try:
        await asyncio.get_running_loop().create_unix_connection(lambda: process, sock=ours)
        path = os.fsencode(file.path)
        process.write(frame(Opening(path, file.identities, file.upkeep, available)))
        async with asyncio.timeout(_START_SECONDS):
            await process.ready()
    except TimeoutError:
        process.strike()
        # Not another one beside it: a dead disk would collect them.
        await process.ended()
        raise StoreUnavailable(
            f"the process that writes to the database was not up after {_START_SECONDS:g} s"
        ) from None
    except BaseException:
        await process.kill()
        ours.close()
        raise
    return process


class Process(asyncio.Protocol):
    """The process, from its start to its end."""

    def __init__(self, popen: subprocess.Popen[bytes], master: Master) -> None:
        self._popen = popen
        self._master = master
        self._splitter: Splitter[Answer] = Splitter(Answer)
        self._transport: asyncio.WriteTransport | None = None
        self._greeting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        #: The number of the last commit when the process came up.
        self.last_commit = 0

    @property
    def pid(self) -> int:
        """Name it."""
        return self._popen.pid

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Have the socket."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Take what it says."""
        for answer in self._splitter.feed(data):
            if self._greeting.done():
                self._master.take(answer)
            elif isinstance(answer, Ready):
                self._greeting.set_result(answer.number)
            elif isinstance(answer, NotReady):
                self._fail(answer.trouble.error())

    def connection_lost(self, _: Exception | None) -> None:
        """It has ended, or is about to."""
        if self._greeting.done():
            self._master.lose(self)
        else:
            self._fail(
                StoreUnavailable("the process that writes to the database ended while it started")
            )

    def _fail(self, error: StoreError) -> None:
        self._greeting.set_exception(error)
        # Whoever waited for it may have gone.
        self._greeting.exception()

    def write(self, message: bytes) -> None:
        """Send it something."""
        assert self._transport is not None
        self._transport.write(message)

    async def ready(self) -> None:
        """Wait until it is up; raises if it cannot be."""
        self.last_commit = await asyncio.shield(self._greeting)

    async def end(self) -> None:
        """Have it finish what it was given, and see it end. Bounded."""
        assert self._transport is not None
        self._transport.close()
        if not await self._ends_within(_END_SECONDS):
            await self.kill()

    async def kill(self) -> None:
        """End it by force. One that is stuck in the disk ends when that comes back. Bounded."""
        self.strike()
        await self._ends_within(_KILL_SECONDS)

    def strike(self) -> None:
        """Send it SIGKILL and cut the socket, without waiting for its end."""
        if self._transport is not None:
            self._transport.abort()
        self._popen.kill()

    async def ended(self) -> None:
        """Wait until it has ended, for as long as a dead disk keeps it. Its locks are gone then."""
        while self._popen.poll() is None:  # noqa: ASYNC110 - there is no event of it
            await asyncio.sleep(_IDLE_LOOK_SECONDS)

    async def _ends_within(self, seconds: float) -> bool:
        """Look until it has ended: there may be no thread that could wait for it."""
        try:
            async with asyncio.timeout(seconds):
                while self._popen.poll() is None:  # noqa: ASYNC110 - there is no event of it
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            return False
        return True
