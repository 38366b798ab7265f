"""The families below a launcher: spares, those at work, and what dead keepers leave behind.

The children of a launcher are keepers. Whatever else turns up has lost its keeper, and is ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import structlog

from agor.errors import HandlerFailed
from agor.executor.launcher.keeper import AHEAD, fork_keeper
from agor.linux import children, family, kill_family, marked, process_of, send
from agor.protocol.launching import MARK, SPAWN_DESCRIPTORS, Family, Process, SpawnParams

log = structlog.get_logger("agor.launcher")

#: Seconds that a forked keeper may take to tell that it is there.
_BIRTH = 10.0


@dataclass
class _Keeper:
    """A keeper that waits for a task, and its executor if that was forked ahead too."""

    keeper: Process
    line: socket.socket
    executor: Process | None = None
    executor_line: socket.socket | None = None

    def close(self) -> None:
        """Hang up; who has no task yet ends then."""
        self.line.close()
        if self.executor_line is not None:
            self.executor_line.close()

    def fork_ahead(self) -> None:
        """Have its executor forked now."""
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.executor_line = near
        with far:
            socket.send_fds(self.line, [AHEAD], [far.fileno()])
        self.executor = self._hear_of_birth()

    def hand_over(self, task: bytes, fds: list[int]) -> Process:
        """Give a task to it, and hear who carries it out."""
        if self.executor is None or self.executor_line is None:
            socket.send_fds(self.line, [task], fds)
            return self._hear_of_birth()
        listener, _, _, *groups = fds
        socket.send_fds(self.executor_line, [task], [listener, *groups])
        return self.executor

    def tell(self, log_file: int, report: int) -> None:
        """Tell the keeper of a spare that its executor has a task, and where to write of it."""
        # If it has ended meanwhile, what it left is found as whoever lost a keeper is.
        with contextlib.suppress(OSError):
            socket.send_fds(self.line, [b"!"], [log_file, report])

    def _hear_of_birth(self) -> Process:
        self.line.settimeout(_BIRTH)
        executor = process_of(int(self.line.recv(20) or b"0"))
        if executor is None:
            raise ConnectionResetError(errno.ECONNRESET, "it ended at once")
        return executor


class Offspring:
    """All that one launcher has started."""

    def __init__(self, spares: int) -> None:
        self._wanted = spares
        #: Keepers with an executor that waits for a task.
        self._spares: list[_Keeper] = []
        #: A keeper that has yet to fork its executor: half of a start is behind it.
        self._ready: _Keeper | None = None
        #: Those whose executor has its task, and who have yet to hear of it; see `settle`.
        self._to_tell: list[tuple[_Keeper, list[int]]] = []
        #: By executor.
        self.families: dict[str, Family] = {}

    def fill_up(self) -> None:
        """Fork what is wanted ahead."""
        while self.wants_more:
            keeper, self._ready = self._ready or _fork(), None
            if len(self._spares) == self._wanted:
                self._ready = keeper
                return
            try:
                keeper.fork_ahead()
            except OSError:
                keeper.close()
                raise
            self._spares.append(keeper)

    @property
    def wants_more(self) -> bool:
        """Whether somebody who should be forked ahead is missing."""
        return len(self._spares) < self._wanted or self._ready is None

    def dismiss_spares(self) -> None:
        """Let those go that got no task; they end when their line does."""
        for waiting in self._waiting():
            waiting.close()
        self._spares.clear()
        self._ready = None

    def _waiting(self) -> list[_Keeper]:
        return [*self._spares, *([self._ready] if self._ready else ())]

    def start(self, params: SpawnParams, fds: list[int]) -> Family:
        """Give a task to a spare, or to a new one."""
        if len(fds) < SPAWN_DESCRIPTORS:
            raise HandlerFailed(f"spawn came with {len(fds)} descriptors, not {SPAWN_DESCRIPTORS}")
        if params.executor_id in self.families:
            raise HandlerFailed(f"there is an executor {params.executor_id} already")
        keeper, executor = self._hand_over(msgspec.json.encode(params), fds)
        family = Family(executor_id=params.executor_id, keeper=keeper, executor=executor)
        self.families[params.executor_id] = family
        return family

    def _hand_over(self, task: bytes, fds: list[int]) -> tuple[Process, Process]:
        """Find somebody for a task; who was forked ahead may have died while it waited."""
        for _ in range(len(self._waiting()) + 1):
            found = self._take()
            try:
                executor = found.hand_over(task, fds)
            except OSError as error:
                log.warning("spare_died", why=str(error))
                found.close()
                continue
            self._to_tell.append((found, fds))
            return found.keeper, executor
        raise HandlerFailed("every forked process died at once")

    def settle(self) -> None:
        """Do what a start leaves for after its answer: whoever waits needs the processors."""
        for keeper, (_, log_file, report, *_) in self._to_tell:
            if keeper.executor is not None:
                keeper.tell(log_file, report)
            keeper.close()
        self._to_tell.clear()

    def _take(self) -> _Keeper:
        if self._spares:
            return self._spares.pop(0)
        ready, self._ready = self._ready, None
        return ready or _fork()

    @contextlib.contextmanager
    def pretending(self, *, ahead: bool) -> Iterator[None]:
        """Have tasks given to nobody: what is started meanwhile is forgotten in the end.

        After a fork all that is touched has to be copied. A start that is only played has that
        behind it when somebody waits.
        """
        known = self._spares, self._ready, self.families
        ourselves = process_of(os.getpid())
        assert ourselves is not None
        line, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with line, far:
            far.sendall(b"%d" % ourselves.pid)
            stand_in = _Keeper(ourselves, line)
            if ahead:
                stand_in.executor, stand_in.executor_line = ourselves, line.dup()
            self._spares, self._ready, self.families = [stand_in], None, {}
            try:
                yield
            finally:
                stand_in.close()
                self._spares, self._ready, self.families = known

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
        for waiting in self._waiting():
            if waiting.keeper.pid in ended:
                waiting.close()
                self._forget(waiting)
        keepers = {known.keeper for known in self.families.values()}
        keepers |= {waiting.keeper for waiting in self._waiting()}
        if lost := [child for child in children(os.getpid()) if child not in keepers]:
            count = kill_family(lost)
            log.warning("ended_what_lost_its_keeper", processes=count)

    def _forget(self, waiting: _Keeper) -> None:
        if waiting is self._ready:
            self._ready = None
        else:
            self._spares.remove(waiting)

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


def _fork() -> _Keeper:
    pid, line = fork_keeper()
    keeper = process_of(pid)
    if keeper is None:
        line.close()
        raise HandlerFailed("a forked process ended at once")
    return _Keeper(keeper, line)
