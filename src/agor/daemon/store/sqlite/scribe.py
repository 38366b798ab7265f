"""The process that writes, as the daemon sees it: hands it groups, and replaces it if it dies.

Invariants:
- one group at a time is with the process; the next one goes out before the last one is settled;
- what became of a group is told by the process, or, if it died over it, by the number that the
  database has: a group that was not committed is handed to the next process, once, and then
  refused;
- while there is no process and none can be started, what waits is refused;
- a process that gives no sign of life, or no answer, is killed. The next one is started only when
  it has ended: until then it holds its locks, and what it was given may yet be committed. What was
  with it is refused if it was not committed: its callers have been told not to wait.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping

import structlog

from agor.daemon.store.line import Line, Waiting, refuse_all
from agor.daemon.store.sqlite import faults
from agor.daemon.store.sqlite.file import DatabaseFile
from agor.daemon.store.sqlite.frames import (
    Answer,
    Availability,
    Beat,
    Done,
    Group,
    Refusing,
    Said,
    Trouble,
    Unreadable,
    check_writes,
    frame,
)
from agor.daemon.store.sqlite.process import Process, start
from agor.daemon.store.stall import Stall
from agor.errors import StoreError, StoreUnavailable

log = structlog.get_logger("agor.store")

#: Seconds between two attempts to start it, at first and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
#: Processes that may die over one group; then the group is refused.
_VICTIMS = 2
#: Beats that are missed before the process is taken to be stopped. They come from a thread that
#: does nothing else, so a busy machine delays them by far less, and a slow disk not at all.
_MISSED_BEATS = 10
#: Ticks without an answer after which even a process that gives signs of life is taken to be stuck
#: for good. The longest thing that it does, moving 128 MiB out of the log, takes less even at
#: 1 MiB a second.
_STUCK_TICKS = 300


class Scribe:
    """The one who writes."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._line: Line
        self._process: Process | None = None
        #: What is with the process, under which number, and how many have died over it.
        self._group: list[Waiting] = []
        self._number = 0
        self._victims = 0
        #: Why the group is refused, once nothing of it can be found any more.
        self._fatal: StoreError | None = None
        #: What is known of the group's writes before it is committed: these are refused.
        self._refused: Mapping[int, Trouble] = {}
        self._sending = False
        self._replacing: asyncio.Task[None] | None = None
        self._closing = False
        #: Whether the last attempt to write was a success.
        self._writable = True
        self._stall: Stall
        self._watching: asyncio.Task[None] | None = None
        #: Ticks since the process was last heard.
        self._silent = 0
        #: Ticks for which the process has owed an answer. A new process starts from zero, whereas
        #: `Stall.ticks` counts the whole outage.
        self._owing = 0

    @property
    def available(self) -> bool:
        """Whether the last attempt to write was a success, and the process answers."""
        return self._writable and self._stall.error is None

    @property
    def stall(self) -> StoreUnavailable | None:
        """Why nobody should wait for the process; none while it answers."""
        return self._stall.error

    async def open(self) -> None:
        """Start the process; raises if it cannot use the database."""
        self._process = await start(self._file, self)

    def start(self, line: Line) -> None:
        """Begin to write what is in the line."""
        self._line = line
        seconds = self._file.upkeep.beat_seconds
        self._stall = Stall(line, f"the database {self._file.path}", seconds)
        self._watching = asyncio.create_task(self._stall.watch(self._tick))

    def wake(self) -> None:
        """There is something in the line. What else comes in this turn of the loop goes with it."""
        if not self._sending:
            self._sending = True
            self._loop.call_soon(self._send)

    async def close(self) -> None:
        """Let the process end. The line is empty."""
        self._stop()
        if self._replacing is not None:
            await asyncio.wait((self._replacing,))
        if self._process is not None:
            await self._process.end()

    async def abandon(self) -> None:
        """End the process by force; nobody will ever know what became of the last group."""
        self._stop()
        for waiting in self._group:
            waiting.done.cancel()
        if self._process is not None:
            await self._process.kill()

    def _stop(self) -> None:
        self._closing = True
        for task in (self._watching, self._replacing):
            if task is not None:
                task.cancel()

    # ── groups ───────────────────────────────────────────────────────────────────────────────

    def _send(self) -> None:
        """Hand the next group over, if there is one and it can be now."""
        self._sending = False
        if self._process is None or self._group:
            return
        if group := self._line.take():
            self._group, self._number, self._victims = group, secrets.randbits(62), 0
            self._hand_over()

    def _hand_over(self) -> None:
        assert self._process is not None
        self._refused = {}
        try:
            message = frame(self._spelled())
        except Exception as error:  # noqa: BLE001 - some write is at fault, and is found
            self._single_out(error)
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

    def _single_out(self, error: Exception) -> None:
        """Refuse what does not get through, and hand over the rest."""
        wrong = check_writes([waiting.write for waiting in self._group])
        if not wrong:
            # Each of them alone would; then it is all of them together.
            self._settle(refuse_all(self._group, faults.refused(error)))
            return
        bad = [self._group[place] for place in wrong]
        self._group = [one for place, one in enumerate(self._group) if place not in wrong]
        self._line.settle(bad, dict(enumerate(map(faults.refused, wrong.values()))))
        if self._group:
            self._hand_over()
        else:
            self.wake()

    def _settle(self, refused: Mapping[int, StoreError]) -> None:
        group, self._group, self._fatal = self._group, [], None
        self._stall.progress()
        self._owing = 0
        try:
            # First the next one: it is written while we tell of this one.
            self._send()
        finally:
            self._line.settle(group, dict(refused))

    def _bury(self) -> None:
        """Have nothing committed, in place of a group that is to be refused.

        If only its sync was cut off, all of it is in the log: SQLite does not count it, but would
        find it after a crash. What is written next takes its place.
        """
        assert self._process is not None
        self._number = secrets.randbits(62)
        self._process.write(frame(Group(self._number, 0, 0, [])))

    # ── what the process tells ───────────────────────────────────────────────────────────────

    def take(self, answer: Answer) -> None:
        """Take what the process has to say."""
        self._silent = 0
        match answer:
            case Beat():
                pass
            case Done(refused, available):
                self._writable = available
                if self._fatal is None:
                    self._settle(_errors(refused))
                else:
                    self._settle(refuse_all(self._group, self._fatal))
            case Unreadable(why):
                self._single_out(ValueError(why))
            case Refusing(refused):
                self._refused = refused
            case Availability(available):
                self._writable = available
            case Said(event, members):
                log.warning(event, **members)
            case _:
                log.error("unexpected_answer", kind=type(answer).__name__)

    def lose(self, lost: Process) -> None:
        """The process is gone, or at least its socket is."""
        if lost is not self._process:
            return
        self._process = None
        if not self._closing:
            log.warning("writer_died", database=str(self._file.path))
            self._replacing = asyncio.create_task(self._replace(lost))

    def _tick(self) -> bool:
        """Kill a process that hangs; tells whether there is none, or it owes an answer."""
        process = self._process
        if process is None:
            return True
        self._silent += 1
        self._owing = self._owing + 1 if self._group else 0
        if self._silent > _MISSED_BEATS or self._owing > _STUCK_TICKS:
            log.warning("writer_hangs", database=str(self._file.path), process=process.pid)
            process.strike()
        return bool(self._group)

    async def _replace(self, lost: Process) -> None:
        """Start another process, however long that takes, and find out about the group."""
        await lost.end()
        # One that is stuck in the disk lives until that comes back, killed or not.
        await lost.ended()
        self._process = process = await self._start_again()
        self._replacing, self._silent, self._owing = None, 0, 0
        log.info("writer_replaced", database=str(self._file.path))
        if not self._group:
            self._stall.progress()
            self._send()
        elif self._fatal is not None:
            self._bury()
        elif process.last_commit == self._number:
            self._settle(_errors(self._refused))
        elif (error := self._stall.error) is not None:
            self._fatal = error
            self._bury()
        elif (victims := self._victims + 1) < _VICTIMS:
            self._victims = victims
            self._hand_over()
        else:
            self._fatal = StoreUnavailable(
                "the process that writes to the database died over this, twice"
            )
            self._bury()

    async def _start_again(self) -> Process:
        pause = _FIRST_PAUSE
        while True:
            try:
                return await start(self._file, self, available=self._writable)
            except StoreError as error:
                self._refuse(error)
            except Exception as error:
                # There may be too little of anything now: descriptors, memory.
                log.exception("writer_not_started", database=str(self._file.path))
                self._refuse(faults.unavailable(error, self._file.path))
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _refuse(self, error: StoreError) -> None:
        """Refuse what waits. Only a group that may be committed already goes on waiting."""
        if self._writable:
            log.warning("store_unavailable", why=error.message)
        self._writable = False
        outage = StoreUnavailable(error.message, hint=error.hint)
        while group := self._line.take():
            self._line.settle(group, refuse_all(group, outage))


def _errors(refused: Mapping[int, Trouble]) -> dict[int, StoreError]:
    return {place: trouble.error() for place, trouble in refused.items()}
