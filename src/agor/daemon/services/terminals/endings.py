"""The ends of terminals: by their shell, by somebody, by their executor, by nobody's coming.

An end is committed before anybody is told of it. A terminal's executor ends with it, with all that
was started in it, and what is left is counted.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec
import structlog

from agor.daemon.pool.ending import Ending, signal_name
from agor.daemon.services.audit.records import record
from agor.daemon.services.executors import Executors
from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import not_before
from agor.daemon.services.terminals.live import LiveTerminal
from agor.daemon.services.terminals.registry import OpenTerminals
from agor.daemon.store import terminals
from agor.daemon.store.base import Store, Write
from agor.daemon.store.rows import AuditRecord, TerminalRow
from agor.errors import StoreUnavailable
from agor.protocol.terminal_api import Exited

log = structlog.get_logger("agor.terminals")

#: Ended terminals of a session that are kept, for people to look up.
_KEPT = 50
#: Seconds for an executor to end, and for that to be stored. What takes longer goes on by itself.
_PATIENCE = 60.0
#: Seconds between two attempts while the store cannot write.
_PAUSE = 0.5


class End(NamedTuple):
    """How a terminal ends."""

    how: str
    exit_code: int | None = None
    #: Who closed it, if somebody did.
    by: Principal | None = None
    #: Whether its shell is gone already, or has to be ended.
    is_over: bool = False


class Endings:
    """Carries out the ends of all terminals."""

    def __init__(self, store: Store, executors: Executors, opened: OpenTerminals) -> None:
        self._store = store
        self._executors = executors
        self._opened = opened
        self._work: set[asyncio.Task[None]] = set()
        self._closed = False

    def watch(self, terminal: LiveTerminal) -> None:
        """Take in a terminal whose shell runs, or did a moment ago."""
        self._opened.add(terminal)
        if (exit_code := self._opened.early_end(terminal)) is not None:
            self.shell_ended(terminal, exit_code)

    # ── what ends a terminal ─────────────────────────────────────────────────────────────────

    def shell_ended(self, terminal: LiveTerminal, exit_code: int) -> None:
        """Its shell has ended by itself."""
        self.begin(terminal, End(shell_end(exit_code), exit_code, is_over=True))

    def abandoned(self, terminal: LiveTerminal) -> None:
        """Nobody was attached for as long as that may be."""
        how = "nobody was attached for longer than execution.terminal_timeout_ms"
        self.begin(terminal, End(how))

    def executor_ended(self, ending: Ending) -> None:
        """An executor is gone: so is the terminal that it had."""
        terminal = self._opened.on(ending.executor_id)
        if terminal is not None:
            self.begin(terminal, End(f"its executor ended: {ending.in_words}", is_over=True))

    async def close(self, terminal: LiveTerminal, how: str, by: Principal | None = None) -> None:
        """Close one, and wait until nothing of it is left."""
        ending = self.begin(terminal, End(how, by=by))
        done, _ = await asyncio.wait((ending,), timeout=_PATIENCE)
        if not done:
            raise StoreUnavailable(
                "the terminal is being closed, and that could not be stored yet",
                hint="It goes on by itself; look again later.",
            )
        ending.result()

    # ── carrying it out ──────────────────────────────────────────────────────────────────────

    def begin(self, terminal: LiveTerminal, end: End) -> asyncio.Task[None]:
        """Begin to end one, unless that is under way."""
        if terminal.ending is None:
            terminal.let_go()
            terminal.ending = self._start(terminal, end)
        return terminal.ending

    def _start(self, terminal: LiveTerminal, end: End) -> asyncio.Task[None]:
        task = asyncio.create_task(self._carry_out(terminal, end))
        self._work.add(task)
        task.add_done_callback(self._done)
        return task

    async def _carry_out(self, terminal: LiveTerminal, end: End) -> None:
        how = end.how
        if not end.is_over:
            how += await self._end_executor(terminal, end.how)
        ended = msgspec.structs.replace(
            terminal.row,
            status="ended",
            exit_code=end.exit_code,
            how=how,
            ended_at=terminal.age.now(),
        )
        try:
            await self._commit(ended, end.by)
        finally:
            self._opened.remove(terminal)
            terminal.row = ended
            terminal.audience.end(Exited(exit_code=end.exit_code, how=how))
        if end.is_over:
            await self._end_executor(terminal, end.how)

    async def _end_executor(self, terminal: LiveTerminal, why: str) -> str:
        """End its executor with all that it started; tells what is left of it, if anything is."""
        try:
            ending = await self._executors.stop(terminal.terminal_id, why)
        except Exception:
            log.exception("executor_not_ended", terminal=terminal.terminal_id)
            return "; whether all of its processes ended is not known"
        if ending is None or ending.survivors == 0:
            return ""
        return f"; {abs(ending.survivors)} of its processes could not be ended"

    async def _commit(self, row: TerminalRow, by: Principal | None) -> None:
        """Store that it has ended. While the store cannot write it is as good as open."""
        write = Write(
            [terminals.end(row), terminals.forget_ended(row.session_id, _KEPT)],
            records=_records(row, by),
        )
        while True:
            try:
                await self._store.commit(write)
            except StoreUnavailable as error:
                if self._closed:
                    # The next daemon finds it open, and its executor gone.
                    raise
                log.warning("end_not_stored_yet", terminal=row.terminal_id, why=error.message)
                await asyncio.sleep(_PAUSE)
            else:
                return

    async def end_stored(self, row: TerminalRow, how: str, exit_code: int | None = None) -> None:
        """End one of an earlier daemon, of which nothing is here any more."""
        ended = msgspec.structs.replace(
            row,
            status="ended",
            exit_code=exit_code,
            how=how,
            ended_at=not_before(row.created_at),
        )
        await self._commit(ended, None)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("terminal_not_ended", exc_info=error)

    async def settled(self) -> None:
        """Wait until no end is under way; one that cannot be stored is left to the next daemon."""
        self._closed = True
        while self._work:
            await asyncio.wait(self._work)


def shell_end(exit_code: int) -> str:
    """Say how a shell ended by itself, or by a signal."""
    if exit_code < 0:
        return f"its shell was killed by {signal_name(-exit_code)}"
    return f"its shell ended with exit code {exit_code}"


def _records(row: TerminalRow, by: Principal | None) -> list[AuditRecord]:
    ended = record(
        "terminal.ended", session_id=row.session_id, subject=row.terminal_id, shell=row.shell,
        exit_code=row.exit_code, how=row.how,
    )  # fmt: skip
    if by is None:
        return [ended]
    closed = record(
        "terminal.closed", by, session_id=row.session_id, subject=row.terminal_id, shell=row.shell
    )
    return [closed, ended]
