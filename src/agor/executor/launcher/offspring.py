"""The families below a launcher: spares, those at work, and what dead keepers leave behind.

The children of a launcher are keepers. Whatever else turns up has lost its keeper, and is ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from dataclasses import dataclass

import msgspec
import structlog

from agor.errors import HandlerFailed
from agor.executor.launcher.keeper import Lines, fork_keeper
from agor.linux import children, family, kill_family, marked, process_of, send
from agor.protocol.launching import MARK, SPAWN_DESCRIPTORS, Family, Process, SpawnParams

log = structlog.get_logger("agor.launcher")

#: Seconds that a forked keeper may take to tell that it is there.
_BIRTH = 10.0


@dataclass
class _Spare:
    """A keeper whose executor waits for a task."""

    keeper: Process
    executor: Process
    lines: Lines


class Offspring:
    """All that one launcher has started."""

    def __init__(self, spares: int) -> None:
        self._wanted = spares
        self._spares: list[_Spare] = []
        #: By executor.
        self.families: dict[str, Family] = {}

    def fill_up(self) -> None:
        """Fork what is wanted ahead."""
        while self.wants_more:
            self._spares.append(self._fork())

    @property
    def wants_more(self) -> bool:
        """Whether spares are missing."""
        return len(self._spares) < self._wanted

    def dismiss_spares(self) -> None:
        """Let those go that got no task; they end when their line does."""
        for spare in self._spares:
            spare.lines.close()
        self._spares.clear()

    def start(self, params: SpawnParams, fds: list[int]) -> Family:
        """Give a task to a spare, or to a new one."""
        if len(fds) < SPAWN_DESCRIPTORS:
            raise HandlerFailed(f"spawn came with {len(fds)} descriptors, not {SPAWN_DESCRIPTORS}")
        if params.executor_id in self.families:
            raise HandlerFailed(f"there is an executor {params.executor_id} already")
        spare = self._hand_over(msgspec.json.encode(params), fds)
        family = Family(
            executor_id=params.executor_id, keeper=spare.keeper, executor=spare.executor
        )
        self.families[params.executor_id] = family
        return family

    def _hand_over(self, task: bytes, fds: list[int]) -> _Spare:
        """Find somebody for a task; a spare may have died while it waited."""
        listener, log_file, report, *groups = fds
        for _ in range(len(self._spares) + 1):
            spare = self._spares.pop(0) if self._spares else self._fork()
            try:
                # The executor first: it has more to do.
                socket.send_fds(spare.lines.executor, [task], [listener, *groups])
                socket.send_fds(spare.lines.keeper, [b"!"], [log_file, report])
            except OSError as error:
                log.warning("spare_died", why=error.strerror)
            else:
                return spare
            finally:
                spare.lines.close()
        raise HandlerFailed("every forked process died at once")

    def _fork(self) -> _Spare:
        pid, lines = fork_keeper()
        lines.keeper.settimeout(_BIRTH)
        try:
            executor = process_of(int(lines.keeper.recv(20) or b"0"))
        except OSError as error:
            lines.close()
            raise HandlerFailed(f"a forked process did not come up: {error}") from error
        keeper = process_of(pid)
        if keeper is None or executor is None:
            lines.close()
            raise HandlerFailed("a forked process ended at once")
        return _Spare(keeper, executor, lines)

    # ── ends ─────────────────────────────────────────────────────────────────────────────────

    def reap(self) -> None:
        """Take note of the keepers that ended, and end what they left."""
        ended = set()
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                ended.add(found[0])
        for executor_id, known in list(self.families.items()):
            if known.keeper.pid in ended:
                del self.families[executor_id]
        for spare in [spare for spare in self._spares if spare.keeper.pid in ended]:
            spare.lines.close()
            self._spares.remove(spare)
        keepers = {known.keeper for known in self.families.values()}
        keepers |= {spare.keeper for spare in self._spares}
        if lost := [child for child in children(os.getpid()) if child not in keepers]:
            count = kill_family(lost)
            log.warning("ended_what_lost_its_keeper", processes=count)

    def alive(self, known: Family) -> list[Process]:
        """List what lives of a family, wherever it went: the keeper is not counted."""
        roots = [known.keeper, known.executor, *marked(MARK, known.executor_id)]
        return [process for process in family(roots) if process != known.keeper]

    def signal(self, known: Family, number: int) -> int:
        """Signal all of a family but the keeper, which is to tell the end."""
        members = self.alive(known)
        if number == signal.SIGKILL:
            # Whoever stopped all of them stopped the keeper too.
            send(known.keeper, signal.SIGCONT)
            return kill_family(members, spare=[known.keeper])
        return sum(send(member, number) for member in members)
