"""The families below a launcher: a keeper that waits, those at work, what dead keepers leave.

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
from agor.executor.launcher.keeper import fork_keeper
from agor.linux import children, family, kill_family, marked, process_of, send
from agor.protocol.launching import MARK, SPAWN_DESCRIPTORS, Family, Process, SpawnParams

log = structlog.get_logger("agor.launcher")

#: Seconds that a forked keeper may take to tell that it is there.
_BIRTH = 10.0


@dataclass
class _Keeper:
    """A keeper that waits for the task of its executor."""

    process: Process
    line: socket.socket

    def hand_over(self, task: bytes, fds: list[int]) -> Process:
        """Give a task to it, and hear who carries it out."""
        socket.send_fds(self.line, [task], fds)
        self.line.settimeout(_BIRTH)
        executor = process_of(int(self.line.recv(20) or b"0"))
        if executor is None:
            raise ConnectionResetError(errno.ECONNRESET, "it ended at once")
        return executor

    def close(self) -> None:
        """Hang up; one that has no task ends then."""
        self.line.close()


class Offspring:
    """All that one launcher has started."""

    def __init__(self) -> None:
        #: A keeper that was forked ahead: half of a start is behind it.
        self._ready: _Keeper | None = None
        #: By executor.
        self.families: dict[str, Family] = {}

    @property
    def wants_keeper(self) -> bool:
        """Whether no keeper waits for the next start."""
        return self._ready is None

    def fork_ahead(self) -> None:
        """Fork the keeper of the next start."""
        self._ready = _fork()

    def dismiss_keeper(self) -> None:
        """Let the keeper go that got no task; it ends when its line does."""
        if self._ready is not None:
            self._ready.close()
            self._ready = None

    def start(self, params: SpawnParams, fds: list[int]) -> Family:
        """Have an executor forked, by the keeper that waits or by a new one."""
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
        for _ in range(2):
            found, self._ready = self._ready or _fork(), None
            try:
                return found.process, found.hand_over(task, fds)
            except OSError as error:
                log.warning("keeper_died", why=str(error))
            finally:
                found.close()
        raise HandlerFailed("every forked process died at once")

    @contextlib.contextmanager
    def pretending(self) -> Iterator[None]:
        """Have tasks given to nobody: what is started meanwhile is forgotten in the end.

        After a fork all that is touched has to be copied. A start that is only played has that
        behind it when somebody waits.
        """
        known = self._ready, self.families
        ourselves = process_of(os.getpid())
        assert ourselves is not None
        line, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with line, far:
            far.sendall(b"%d" % ourselves.pid)
            self._ready, self.families = _Keeper(ourselves, line), {}
            try:
                yield
            finally:
                self._ready, self.families = known

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
        if self._ready is not None and self._ready.process.pid in ended:
            self.dismiss_keeper()
        keepers = {known.keeper for known in self.families.values()}
        if self._ready is not None:
            keepers.add(self._ready.process)
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


def _fork() -> _Keeper:
    pid, line = fork_keeper()
    keeper = process_of(pid)
    if keeper is None:
        line.close()
        raise HandlerFailed("a forked process ended at once")
    return _Keeper(keeper, line)
