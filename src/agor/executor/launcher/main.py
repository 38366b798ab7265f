"""The launcher's loop: packets from the daemon, children that ended, a keeper to fork ahead.

It is one thread without an event loop, so that it can be forked at any time. It holds no key and
no state worth saving: the keepers go on without it, and another launcher can signal them.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pwd
import select
import signal
import socket
import time

import structlog

import agor
from agor import logs
from agor.agents.registry import describe_agents, import_ahead
from agor.catalogue import AGENTS_FOLDER
from agor.errors import AgorError
from agor.executor.launcher.control import Connection, Handlers, answer
from agor.executor.launcher.offspring import Offspring
from agor.executor.launcher.rehearsal import TASK, rehearse
from agor.linux import become_subreaper, process_of
from agor.protocol.forms import Nothing
from agor.protocol.launching import (
    COUNT_FAMILY,
    FIND_FAMILY,
    HELLO,
    IMPORT_AHEAD,
    RETIRE,
    SIGNAL_FAMILY,
    SPAWN,
    SPAWN_DESCRIPTORS,
    Counted,
    Family,
    FindParams,
    Found,
    HelloResult,
    SignalParams,
    SpawnParams,
)
from agor.protocol.validation import ParamsReader
from agor.rpc.unix import inherit, peer_uid

log = structlog.get_logger("agor.launcher")

#: Daemons come one after the other; two at once only while one takes over from another.
_MAX_CONNECTIONS = 8
#: Milliseconds without a request before a keeper is forked ahead.
_QUIET = 20.0
#: Seconds before it is tried again if it cannot be forked.
_RETRY_PAUSE = 1.0
#: Lives of executors that are rehearsed before the first is forked.
_REHEARSALS = 10


#: What executors may know of our environment; sudo adds who called it, and how.
_ALLOWED = frozenset(
    {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "TERM", AGENTS_FOLDER}
)


def launch(orphan_timeout: float) -> int:
    """Run until the daemon sends us away, or none has been there for long enough."""
    try:
        listener = inherit(0)
    except AgorError as error:
        log.error("cannot_start", code=error.code, why=error.message)
        return 2
    become_subreaper()
    _be_at_home()
    logs.configure("info", "json")
    warm_up()
    launcher = Launcher(listener, orphan_timeout)
    log.info("launcher_ready", pid=os.getpid(), user=launcher.user, uid=os.getuid())
    launcher.run()
    log.info("launcher_ended")
    return 0


def warm_up() -> None:
    """Import, make and warm up whatever an executor needs, once for all of them."""
    describe_agents()
    # Not in a loop of libuv: that leaves a pipe behind, by number. A forked process closes it with
    # all the others, and its first child process would then be its end.
    asyncio.run(rehearse(_REHEARSALS))
    gc.collect()
    gc.freeze()


def _be_at_home() -> None:
    """Take on what a login would give, and nothing else: environment, mask and folder."""
    for name in set(os.environ) - _ALLOWED:
        if not name.startswith("LC_"):
            del os.environ[name]
    os.umask(0o022)
    home = pwd.getpwuid(os.getuid()).pw_dir
    try:
        os.chdir(home)
    except OSError as error:
        log.warning("no_home", home=home, why=error.strerror)
        os.chdir("/")


class Launcher:
    """What the daemon may ask of a launcher."""

    def __init__(self, listener: socket.socket, orphan_timeout: float) -> None:
        self.user = pwd.getpwuid(os.getuid()).pw_name
        listener.setblocking(False)
        self._listener = listener
        self._allowed = {0, peer_uid(listener)}
        self._orphan_timeout = orphan_timeout
        self._connections: dict[int, Connection] = {}
        self._offspring = Offspring()
        self._handlers: Handlers = {
            HELLO.name: (ParamsReader(Nothing), self._hello),
            IMPORT_AHEAD.name: (ParamsReader(Nothing), self._import_ahead),
            SPAWN.name: (ParamsReader(SpawnParams), self._spawn),
            FIND_FAMILY.name: (ParamsReader(FindParams), self._find),
            SIGNAL_FAMILY.name: (ParamsReader(SignalParams), self._signal),
            COUNT_FAMILY.name: (ParamsReader(Family), self._count),
            RETIRE.name: (ParamsReader(Nothing), self._retire),
        }
        self._retiring = False
        self._imported_ahead = False
        self._no_fork_before = 0.0
        self._alone_since = time.monotonic()
        self._wake, wake = socket.socketpair()
        for end in (self._wake, wake):
            end.setblocking(False)
        self._wake_writer = wake
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._retire_on_signal)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(wake.fileno())

    def run(self) -> None:
        """Serve until it is time to go."""
        poll = select.poll()
        poll.register(self._listener.fileno(), select.POLLIN)
        poll.register(self._wake.fileno(), select.POLLIN)
        while not self._done():
            ready = poll.poll(self._patience())
            if not ready and self._offspring.wants_keeper and not self._retiring:
                # Not while there is something else to do: whoever was just started needs the time.
                self._get_ahead()
            for fd, events in ready:
                if fd == self._listener.fileno():
                    self._accept(poll)
                elif fd == self._wake.fileno():
                    with contextlib.suppress(BlockingIOError):
                        self._wake.recv(4096)
                    self._offspring.reap()
                # Who has hung up wants nothing any more: least of all an executor.
                elif events & select.POLLHUP or not self._serve(self._connections[fd]):
                    poll.unregister(fd)
                    self._connections.pop(fd).close()
                    self._alone_since = time.monotonic()
        self._offspring.dismiss_keeper()

    def _get_ahead(self) -> None:
        """Do what makes the next start fast."""
        if time.monotonic() >= self._no_fork_before:
            try:
                self._offspring.fork_ahead()
                self._rehearse()
            except (OSError, AgorError) as error:
                log.warning("no_keeper_ahead", why=str(error))
                self._no_fork_before = time.monotonic() + _RETRY_PAUSE

    def _rehearse(self) -> None:
        """Play what comes next, a start."""
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far, self._offspring.pretending():
            fds = [far.fileno()] * SPAWN_DESCRIPTORS
            socket.send_fds(far, [b"%b%b}" % (SPAWN.opening(0), TASK)], fds)
            connection = Connection(near)
            self._serve(connection)
            connection.close()

    def _done(self) -> bool:
        if self._offspring.families:
            return False
        if self._retiring:
            return True
        lonely = time.monotonic() - self._alone_since
        return not self._connections and lonely >= self._orphan_timeout

    def _patience(self) -> float | None:
        """Milliseconds after which to look again whether anybody needs us."""
        if self._offspring.wants_keeper and not self._retiring:
            return max(_QUIET, (self._no_fork_before - time.monotonic()) * 1000)
        if self._connections or self._offspring.families:
            return None
        lonely = time.monotonic() - self._alone_since
        return max(1.0, (self._orphan_timeout - lonely) * 1000)

    def _retire_on_signal(self, number: int, _: object) -> None:
        log.info("retiring", signal=signal.Signals(number).name)
        self._retiring = True

    # ── the daemon ───────────────────────────────────────────────────────────────────────────

    def _accept(self, poll: select.poll) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._listener.accept()
            if peer_uid(sock) not in self._allowed or len(self._connections) >= _MAX_CONNECTIONS:
                log.warning("connection_refused", uid=peer_uid(sock))
                sock.close()
                return
            self._connections[sock.fileno()] = Connection(sock)
            poll.register(sock.fileno(), select.POLLIN)

    def _serve(self, connection: Connection) -> bool:
        """Do what one packet asks. False if the daemon hung up."""
        request = connection.receive()
        if request is None:
            return False
        with request:
            answer(connection, request, self._handlers)
        return True

    def _hello(self, _: Nothing, __: list[int]) -> HelloResult:
        own = process_of(os.getpid())
        assert own is not None
        return HelloResult(
            agents_folder=os.environ.get(AGENTS_FOLDER),
            version=agor.__version__,
            user=self.user,
            uid=os.getuid(),
            process=own,
        )

    def _import_ahead(self, _: Nothing, __: list[int]) -> Nothing:
        """Import the agents' libraries, once. The keeper that waits has none of it, and goes."""
        if not self._imported_ahead:
            self._imported_ahead = True
            began = time.monotonic()
            try:
                import_ahead()
            except Exception:
                # Who needs it tries again, and says what is wrong.
                log.exception("not_imported_ahead")
            gc.collect()
            gc.freeze()
            self._offspring.dismiss_keeper()
            log.info("imported_ahead", seconds=round(time.monotonic() - began, 3))
        return Nothing()

    def _find(self, params: FindParams, _: list[int]) -> Found:
        return Found(family=self._offspring.families.get(params.executor_id))

    def _spawn(self, params: SpawnParams, fds: list[int]) -> Family:
        return self._offspring.start(params, fds)

    def _signal(self, params: SignalParams, _: list[int]) -> Counted:
        return Counted(count=self._offspring.signal(params.family, params.signal))

    def _count(self, family: Family, _: list[int]) -> Counted:
        return Counted(count=len(self._offspring.alive(family)))

    def _retire(self, _: Nothing, __: list[int]) -> Nothing:
        self._retiring = True
        return Nothing()
