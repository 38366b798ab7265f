"""The families below a launcher: a keeper that waits, those at work, what dead keepers leave.

The children of a launcher are keepers. Whatever else turns up has lost its keeper, and is ended.

A start does not block the launcher: it hands the task to a keeper and goes on, so that several
keepers can fork their executors at the same time. The keeper reports the executor's pid on its
line; only then is the request answered.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
import structlog

from agor.agents.scratch import remove_abandoned
from agor.errors import AgorError, Cancelled, HandlerFailed
from agor.executor.launcher.keeper import BIRTH_BYTES, fork_keeper
from agor.linux import (
    children,
    family,
    is_alive,
    kill_family,
    marked,
    process_of,
    send,
    shortage,
)
from agor.protocol.launching import MARK, SPAWN_DESCRIPTORS, Family, Process, SpawnParams

log = structlog.get_logger("agor.launcher")

#: Keepers that are tried one after the other for one task.
_ATTEMPTS = 2

Outcome = Family | AgorError


@dataclass
class _Keeper:
    """A keeper, and the line to it until it has reported its executor."""

    process: Process
    line: socket.socket

    def hand_over(self, task: bytes, fds: list[int]) -> None:
        """Give a task to it."""
        socket.send_fds(self.line, [task], fds)

    def read_birth(self) -> Process:
        """Read who carries out the task, which the keeper has reported.

        A keeper that has died since does not count: its end was taken note of already, so nobody
        would ever remove its family. Its executor is ended as one without a keeper.
        """
        reported = int(self.line.recv(BIRTH_BYTES) or b"0")
        if reported < 0:
            raise _in_words(OSError(-reported, os.strerror(-reported)))
        executor = process_of(reported) if reported else None
        if executor is None or not is_alive(self.process):
            raise ConnectionResetError("it ended at once")
        return executor

    def close(self) -> None:
        """Hang up; one that has no task ends then."""
        self.line.close()


@dataclass
class _Start:
    """A start under way: its keeper has the task, and has not reported an executor yet."""

    params: SpawnParams
    fds: list[int]
    keeper: _Keeper
    report: Callable[[Outcome], None]
    attempts: int = 1

    def end(self, outcome: Outcome) -> None:
        """Report how it went, and let go of what it needed."""
        self.keeper.close()
        for fd in self.fds:
            os.close(fd)
        self.report(outcome)


class Offspring:
    """All that one launcher has started."""

    def __init__(self) -> None:
        #: A keeper that was forked ahead: half of a start is behind it.
        self._ready: _Keeper | None = None
        #: By the descriptor of the keeper's line, on which news will come.
        self._starts: dict[int, _Start] = {}
        #: By executor.
        self.families: dict[str, Family] = {}

    @property
    def wants_keeper(self) -> bool:
        """Whether no keeper waits for the next start."""
        return self._ready is None

    @property
    def busy(self) -> bool:
        """Whether anything was started that has not ended."""
        return bool(self.families or self._starts)

    @property
    def lines(self) -> list[int]:
        """The descriptors on which keepers will report."""
        return list(self._starts)

    def fork_ahead(self) -> None:
        """Fork the keeper of the next start."""
        self._ready = _fork()

    def dismiss_keeper(self) -> None:
        """Let the keeper go that got no task; it ends when its line does."""
        if self._ready is not None:
            self._ready.close()
            self._ready = None

    # ── starts ───────────────────────────────────────────────────────────────────────────────

    def start(self, params: SpawnParams, fds: list[int], report: Callable[[Outcome], None]) -> None:
        """Have an executor forked, by the keeper that waits or by a new one.

        The descriptors are ours from now on. What became of it is reported when it is known.
        """
        try:
            self._check(params, fds)
            keeper = self._give(params, fds)
        except (OSError, AgorError) as error:
            for fd in fds:
                os.close(fd)
            report(_in_words(error))
        else:
            self._starts[keeper.line.fileno()] = _Start(params, fds, keeper, report)

    def _check(self, params: SpawnParams, fds: list[int]) -> None:
        if len(fds) < SPAWN_DESCRIPTORS:
            raise HandlerFailed(f"spawn came with {len(fds)} descriptors, not {SPAWN_DESCRIPTORS}")
        starting = {each.params.executor_id for each in self._starts.values()}
        if params.executor_id in self.families or params.executor_id in starting:
            raise HandlerFailed(f"there is an executor {params.executor_id} already")

    def _give(self, params: SpawnParams, fds: list[int]) -> _Keeper:
        """Give a task to a keeper; one that was forked ahead may have died while it waited."""
        task = msgspec.json.encode(params)
        if self._ready is not None:
            keeper, self._ready = self._ready, None
            try:
                keeper.hand_over(task, fds)
            except OSError as error:
                keeper.close()
                log.warning("keeper_died", why=str(error))
            else:
                return keeper
        keeper = _fork()
        try:
            keeper.hand_over(task, fds)
        except BaseException:
            keeper.close()
            raise
        return keeper

    def hear(self, line: int) -> None:
        """Take what a keeper reports: who the executor is, or that there will be none."""
        start = self._starts.pop(line)
        params = start.params
        try:
            executor = start.keeper.read_birth()
        except OSError as error:
            if (exhausted := shortage(error)) is not None:
                # Who the executor is cannot be known now. It is ended as one without a keeper,
                # which is our child and not reaped yet: its number is nobody else's.
                os.kill(start.keeper.process.pid, signal.SIGKILL)
                start.end(exhausted)
                return
            log.warning("keeper_died", why=str(error))
            self._try_again(start)
        except AgorError as error:
            start.end(error)
        else:
            keeper = start.keeper.process
            born = Family(executor_id=params.executor_id, keeper=keeper, executor=executor)
            self.families[params.executor_id] = born
            start.end(born)

    def _try_again(self, start: _Start) -> None:
        if start.attempts == _ATTEMPTS:
            start.end(HandlerFailed("every forked process died at once"))
            return
        start.keeper.close()
        start.attempts += 1
        try:
            start.keeper = self._give(start.params, start.fds)
        except (OSError, AgorError) as error:
            start.end(_in_words(error))
        else:
            self._starts[start.keeper.line.fileno()] = start

    def call_off(self, executor_id: str) -> int:
        """Undo a start that nobody waits for any more, whether or not it is over.

        Returns how many processes were ended. If a keeper is killed just after it forked, its
        executor comes back to us as a child without a keeper, and is ended as such.
        """
        for line, start in list(self._starts.items()):
            if start.params.executor_id == executor_id:
                del self._starts[line]
                send(start.keeper.process, signal.SIGKILL)
                start.end(Cancelled("the start was called off"))
                return 1
        known = self.families.get(executor_id)
        return 0 if known is None else self.signal(known, signal.SIGKILL)

    @contextlib.contextmanager
    def pretending(self) -> Iterator[None]:
        """Have tasks given to nobody: what is started meanwhile is forgotten in the end.

        After a fork all that is touched has to be copied. A start that is only played has that
        behind it when somebody waits.
        """
        known = self._ready, self.families, self._starts
        ourselves = process_of(os.getpid())
        assert ourselves is not None
        line, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with line, far:
            far.sendall(b"%d" % ourselves.pid)
            self._ready, self.families, self._starts = _Keeper(ourselves, line), {}, {}
            try:
                yield
            finally:
                self._ready, self.families, self._starts = known

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
        keepers |= {start.keeper.process for start in self._starts.values()}
        if self._ready is not None:
            keepers.add(self._ready.process)
        if lost := [child for child in children(os.getpid()) if child not in keepers]:
            killed = kill_family(lost)
            log.warning("ended_what_lost_its_keeper", processes=len(killed))
        remove_abandoned()

    def alive(self, known: Family) -> list[Process]:
        """List what lives of a family, wherever it went: the keeper is not counted."""
        roots = [known.keeper, known.executor, *marked(MARK, known.executor_id)]
        return [process for process in family(roots) if process != known.keeper]

    def count(self, known: Family) -> int:
        """Count what lives of a family. Once nothing does, what it had on disk goes as well."""
        count = len(self.alive(known))
        if count == 0:
            remove_abandoned()
        return count

    def signal(self, known: Family, number: int) -> int:
        """Signal all of a family but the keeper, which is to tell the end."""
        members = self.alive(known)
        if number == signal.SIGKILL:
            # Whoever stopped all of them stopped the keeper too.
            send(known.keeper, signal.SIGCONT)
            return len(kill_family(members, spare=[known.keeper]))
        return sum(send(member, number) for member in members)


def _in_words(error: OSError | AgorError) -> AgorError:
    """Turn an error of the system into one that may leave this process."""
    if isinstance(error, AgorError):
        return error
    return shortage(error) or HandlerFailed(f"no process could be forked: {error}")


def _fork() -> _Keeper:
    pid, line = fork_keeper()
    try:
        keeper = process_of(pid)
    except OSError:
        # It ends when its line does.
        line.close()
        raise
    if keeper is None:
        line.close()
        raise HandlerFailed("a forked process ended at once")
    return _Keeper(keeper, line)
