"""After a start: terminals whose executor was taken back go on, and the others are ended."""

from __future__ import annotations

import structlog

from agor.daemon.pool.take_back import TakenBack
from agor.daemon.services.executors import Executors
from agor.daemon.services.terminals.endings import Endings, shell_end
from agor.daemon.services.terminals.live import LiveTerminal
from agor.daemon.store import terminals
from agor.daemon.store.base import Store
from agor.daemon.store.rows import TerminalRow

log = structlog.get_logger("agor.terminals")

_GONE = "the daemon was restarted, and meanwhile its executor was gone"


class TerminalRecovery:
    """Brings terminals to where an earlier daemon had them."""

    def __init__(
        self,
        store: Store,
        executors: Executors,
        endings: Endings,
        timeout: float,
    ) -> None:
        self._store = store
        self._executors = executors
        self._endings = endings
        self._timeout = timeout

    async def recover(self, taken: list[TakenBack]) -> None:
        """Go on with terminals on executors that were taken back; end what is left of others."""
        theirs = {one.pooled.executor_id: one for one in taken if one.pooled.claim.terminal_id}
        for row in await terminals.still_open(self._store):
            await self._go_on(row, theirs.pop(row.executor_id, None))
        for one in theirs.values():
            # Its terminal was never told to anybody, or has ended.
            await self._end_executor(one)

    async def _go_on(self, row: TerminalRow, one: TakenBack | None) -> None:
        known = {} if one is None else {each.terminal_id: each for each in one.terminals}
        shell = known.get(row.terminal_id)
        if one is None or shell is None:
            await self._endings.end_stored(row, _GONE)
        elif shell.exit_code is not None:
            await self._endings.end_stored(row, shell_end(shell.exit_code), shell.exit_code)
        else:
            terminal = LiveTerminal(row, one.pooled.environment, self._endings, self._timeout)
            self._endings.watch(terminal)
            log.info("terminal_taken_back", terminal=row.terminal_id)
            return
        if one is not None:
            await self._end_executor(one)

    async def _end_executor(self, one: TakenBack) -> None:
        await self._executors.stop(one.pooled.claim.seat, "its terminal has ended")
