"""The process that writes, as the daemon sees it: hands it groups, and replaces it if it dies.

Invariants:
- one group at a time is with the process; the next one goes out before the last one is settled;
- what became of a group is told by the process, or, if it died over it, by the number that the
  database has: a group that was not committed is handed to the next process, once;
- while there is no process and none can be started, what waits is refused.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import cast

import structlog

from agor.daemon.store.line import Line, Waiting, refuse_all
from agor.daemon.store.sqlite import faults
from agor.daemon.store.sqlite.file import DatabaseFile
from agor.daemon.store.sqlite.frames import (
    Answer,
    Availability,
    Done,
    Group,
    NotReady,
    Opening,
    Ready,
    Refusing,
    Said,
    Splitter,
    Trouble,
    Unreadable,
    check_writes,
    frame,
)
from agor.errors import StoreError, StoreUnavailable

log = structlog.get_logger("agor.store")

#: Seconds for the process to come up, on a busy machine.
_START_SECONDS = 30.0
#: Seconds for it to end once it was told to.
_END_SECONDS = 5.0
#: Seconds for it to end once it was killed.
_KILL_SECONDS = 1.0
#: Seconds between two attempts to start it, at first and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
#: Processes that may die over one group; then the group is refused.
_VICTIMS = 2
#: What the process may know of our environment: where temporary files go, and the language.
_ALLOWED = ("LANG", "LC_ALL", "TMPDIR", "SQLITE_TMPDIR")
_COMMAND = (sys.executable, "-P", "-m", "agor.daemon.store.sqlite.writing")


class Scribe:
    """The one who writes."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._line: Line
        self._process: _Process | None = None
        #: What is with the process, under which number, and how many have died over it.
        self._group: list[Waiting] = []
        self._number = 0
        self._victims = 0
        #: What is known of the group's writes before it is committed: these are refused.
        self._refused: Mapping[int, Trouble] = {}
        self._sending = False
        self._replacing: asyncio.Task[None] | None = None
        self._closing = False
        #: Whether the last attempt to write was a success.
        self.available = True

    async def open(self) -> None:
        """Start the process; raises if it cannot use the database."""
        self._process = await self._start()

    def start(self, line: Line) -> None:
        """Begin to write what is in the line."""
        self._line = line

    def wake(self) -> None:
        """There is something in the line. What else comes in this turn of the loop goes with it."""
        if not self._sending:
            self._sending = True
            self._loop.call_soon(self._send)

    async def close(self) -> None:
        """Let the process end. The line is empty."""
        self._closing = True
        if self._replacing is not None:
            self._replacing.cancel()
            await asyncio.wait((self._replacing,))
        if self._process is not None:
            await self._process.end()

    async def abandon(self) -> None:
        """End the process by force; nobody will ever know what became of the last group."""
        self._closing = True
        if self._replacing is not None:
            self._replacing.cancel()
        for waiting in self._group:
            waiting.done.cancel()
        if self._process is not None:
            await self._process.kill()

    # ── groups ───────────────────────────────────────────────────────────────────────────────

    def _send(self) -> None:
        """Hand the next group over, if there is one and it can be now."""
        self._sending = False
        if self._process is None or self._group:
            return
        if group := self._line.take():
            self._group, self._number = group, secrets.randbits(62)
            self._hand_over()

    def _hand_over(self) -> None:
        assert self._process is not None
        self._refused = {}
        try:
            message = frame(self._spelled())
        except Exception:  # noqa: BLE001 - some write is at fault, and is found
            self._single_out()
            return
        self._process.write(message)

    def _spelled(self) -> Group:
        group = self._group
        return Group(
            self._number,
            sum(waiting.rows for waiting in group),
            sum(waiting.size for waiting in group),
            [waiting.write for waiting in group],
        )

    def _single_out(self) -> None:
        """Refuse what does not get through, and hand over the rest."""
        wrong = check_writes([waiting.write for waiting in self._group])
        assert wrong, "a group is as good as its writes"
        bad = [self._group[place] for place in wrong]
        self._group = [one for place, one in enumerate(self._group) if place not in wrong]
        self._line.settle(bad, dict(enumerate(map(faults.refused, wrong.values()))))
        if self._group:
            self._hand_over()
        else:
            self.wake()

    def _settle(self, refused: Mapping[int, StoreError]) -> None:
        group, self._group, self._victims = self._group, [], 0
        # First the next one: it is written while we tell of this one.
        self._send()
        self._line.settle(group, dict(refused))

    # ── what the process tells ───────────────────────────────────────────────────────────────

    def take(self, answer: Answer) -> None:
        """Take what the process has to say."""
        match answer:
            case Done(refused, available):
                self.available = available
                self._settle(_errors(refused))
            case Unreadable():
                self._single_out()
            case Refusing(refused):
                self._refused = refused
            case Availability(available):
                self.available = available
            case Said(event, members):
                log.warning(event, **members)
            case _:
                log.error("unexpected_answer", kind=type(answer).__name__)

    def lose(self, lost: _Process) -> None:
        """The process is gone, or at least its socket is."""
        self._process = None
        if not self._closing:
            log.warning("writer_died", database=str(self._file.path))
            self._replacing = asyncio.create_task(self._replace(lost))

    async def _replace(self, lost: _Process) -> None:
        """Start another process, however long that takes, and find out about the group."""
        # Never two at once: the number in the database is to be the last word about the group.
        await lost.end()
        pause = _FIRST_PAUSE
        while True:
            try:
                process = await self._start()
            except StoreError as error:
                self._refuse(error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                break
        self._process = process
        self.available = True
        self._replacing = None
        log.info("writer_replaced", database=str(self._file.path))
        self._victims += 1
        if not self._group:
            self._send()
        elif process.last_commit == self._number:
            self._settle(_errors(self._refused))
        elif self._victims < _VICTIMS:
            self._hand_over()
        else:
            fatal = StoreUnavailable("the process that writes to the database died over this")
            self._settle(refuse_all(self._group, fatal))

    def _refuse(self, error: StoreError) -> None:
        """Refuse what waits. Only a group that may be committed already goes on waiting."""
        if self.available:
            log.warning("store_unavailable", why=error.message)
        self.available = False
        outage = StoreUnavailable(error.message, hint=error.hint)
        while group := self._line.take():
            self._line.settle(group, refuse_all(group, outage))

    # ── the process ──────────────────────────────────────────────────────────────────────────

    async def _start(self) -> _Process:
        assert self._file.lock is not None
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                popen = await asyncio.to_thread(spawn, theirs, self._file.lock)
            except OSError as error:
                ours.close()
                raise StoreUnavailable(
                    f"the process that writes to the database cannot be started: {error}",
                    hint=f"Can {sys.executable} be run, and is there memory left?",
                ) from error
        process = _Process(popen, self)
        try:
            await self._loop.create_unix_connection(lambda: process, sock=ours)
            file = self._file
            process.write(frame(Opening(str(file.path), file.identities, file.upkeep)))
            async with asyncio.timeout(_START_SECONDS):
                await process.ready()
        except TimeoutError:
            await process.end()
            raise StoreUnavailable(
                f"the process that writes to the database was not up after {_START_SECONDS:g} s"
            ) from None
        except BaseException:
            await process.end()
            raise
        return process


def spawn(line: socket.socket, lock: int) -> subprocess.Popen[bytes]:
    """Start a process that writes, and that holds the lock on the database as well."""
    return subprocess.Popen(
        _COMMAND,
        stdin=line.fileno(),
        stdout=subprocess.DEVNULL,
        # So that another daemon waits until this process has ended, too.
        pass_fds=(lock,),
        env={name: os.environ[name] for name in _ALLOWED if name in os.environ},
        cwd="/",
        start_new_session=True,
    )


class _Process(asyncio.Protocol):
    """One process that writes, and the socket to it."""

    def __init__(self, popen: subprocess.Popen[bytes], scribe: Scribe) -> None:
        self._popen = popen
        self._scribe = scribe
        self._splitter: Splitter[Answer] = Splitter(Answer)
        self._transport: asyncio.WriteTransport
        loop = asyncio.get_running_loop()
        self._greeting: asyncio.Future[int] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()
        #: The number of the last commit when the process came up.
        self.last_commit = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Have the socket."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Take what it says."""
        for answer in self._splitter.feed(data):
            if self._greeting.done():
                self._scribe.take(answer)
            elif isinstance(answer, Ready):
                self._greeting.set_result(answer.number)
            elif isinstance(answer, NotReady):
                self._greeting.set_exception(answer.trouble.error())

    def connection_lost(self, _: Exception | None) -> None:
        """It has ended, or is about to."""
        self._gone.set_result(None)
        if self._greeting.done() and self._greeting.exception() is None:
            self._scribe.lose(self)
        elif not self._greeting.done():
            self._greeting.set_exception(
                StoreUnavailable("the process that writes to the database ended while it started")
            )

    def write(self, message: bytes) -> None:
        """Send it something."""
        self._transport.write(message)

    async def ready(self) -> None:
        """Wait until it is up; raises if it cannot be."""
        self.last_commit = await self._greeting

    async def end(self) -> None:
        """Have it finish what it was given, and see it end. Bounded."""
        self._transport.close()
        if not await self._ends_within(_END_SECONDS):
            await self.kill()
        await self._gone

    async def kill(self) -> None:
        """End it by force. One that is stuck in the disk ends when that comes back."""
        self._transport.abort()
        self._popen.kill()
        await self._ends_within(_KILL_SECONDS)

    async def _ends_within(self, seconds: float) -> bool:
        try:
            await asyncio.to_thread(self._popen.wait, seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


def _errors(refused: Mapping[int, Trouble]) -> dict[int, StoreError]:
    return {place: trouble.error() for place, trouble in refused.items()}
