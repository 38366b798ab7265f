"""The services of terminals, put together; what they do at an end."""

from __future__ import annotations

from agor.daemon.services.executors import Executors
from agor.daemon.services.live import LiveSessions
from agor.daemon.services.people.people import People
from agor.daemon.services.terminals.endings import Endings
from agor.daemon.services.terminals.openings import Openings
from agor.daemon.services.terminals.recovery import TerminalRecovery
from agor.daemon.services.terminals.registry import OpenTerminals
from agor.daemon.services.terminals.terminals import Terminals
from agor.daemon.services.workspaces.workspaces import Workspaces
from agor.daemon.store.base import Store
from agor.errors import InvalidParams
from agor.execution import ExecutionEnvironment
from agor.protocol.terminals import ReportTerminalParams


class TerminalParts:
    """All that has to do with terminals."""

    def __init__(
        self,
        store: Store,
        people: People,
        lives: LiveSessions,
        executors: Executors,
        workspaces: Workspaces,
        opened: OpenTerminals,
        timeout: float,
    ) -> None:
        self.opened = opened
        self.endings = Endings(store, executors, opened)
        self.openings = Openings(
            store, lives, executors, people, workspaces, opened, self.endings, timeout
        )
        self.terminals = Terminals(store, lives, opened, self.endings)
        self.recovery = TerminalRecovery(store, executors, self.endings, timeout)

    def take(self, environment: ExecutionEnvironment, report: ReportTerminalParams) -> None:
        """Take what an executor says of its terminal, and of no other."""
        terminal = self.opened.get(report.terminal_id)
        if terminal is None:
            # It is being opened, or taken back, or has ended: nobody looks at it.
            if report.exit_code is not None:
                self.opened.note_early_end(
                    environment.executor_id, report.terminal_id, report.exit_code
                )
            return
        if terminal.row.executor_id != environment.executor_id:
            raise InvalidParams("it reports what another executor's terminal printed")
        terminal.take(report)

    def close(self) -> None:
        """Look after them no more; they go on, for the daemon after us."""
        for terminal in self.opened.all():
            terminal.let_go()
