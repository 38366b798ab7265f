"""The launcher's loop: packets from the daemon, children that ended, a keeper to fork ahead.

It is one thread without an event loop, so that it can be forked at any time. It holds no key and
no state worth saving: the keepers go on without it, and another launcher can signal them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import pwd
import select
import signal
import socket
import stat
import time

import structlog

import agor
from agor import logs
from agor.agents.registry import describe_agents, import_ahead
from agor.agents.scratch import remove_abandoned
from agor.catalogue import AGENTS_FOLDER
from agor.errors import AgorError
from agor.executor.launcher.control import LATER, Connection, Handlers, Request, serve
from agor.executor.launcher.offspring import Offspring, Outcome
from agor.executor.launcher.rehearsal import TASK, rehearse
from agor.linux import become_subreaper, process_of, run_out
from agor.protocol.forms import Nothing
from agor.protocol.launching import (
    CALL_OFF,
    COUNT_FAMILY,
    HELLO,
    RETIRE,
    SIGNAL_FAMILY,
    SPAWN,
    SPAWN_DESCRIPTORS,
    CallOffParams,
    Counted,
    Family,
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
#: Seconds before another connection is taken after one could not be.
_ACCEPT_PAUSE = 0.01
#: Lives of executors that are rehearsed before the first is forked.
_REHEARSALS = 10
#: Seconds between two looks at the daemon's folder while no daemon is connected.
_LOOK = 2.0


def _is_there(path: str) -> bool:
    """Tell whether there is something at a path, as far as we may look."""
    try:
        os.lstat(path)
    except OSError:
        return False
    return True


#: What executors may know of our environment; sudo adds who called it, and how.
_ALLOWED = frozenset(
    {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "TERM", AGENTS_FOLDER}
)


def launch(orphan_timeout: float, *, preload: bool) -> int:
    """Run until the daemon sends us away, or none has been there for long enough.

    With `preload`, the agents' libraries are imported before the first request is answered. That
    takes a second of a processor, so the daemon starts one launcher without, for those who wait,
    and has this one take its place when it is ready.
    """
    try:
        listener = inherit(0)
    except AgorError as error:
        log.error("cannot_start", code=error.code, why=error.message)
        return 2
    become_subreaper()
    _be_at_home()
    logs.configure("info", "json")
    remove_abandoned()
    # Also if an import fails: another launcher would have no more luck with it.
    launcher = Launcher(listener, orphan_timeout, preloaded=preload)
    if preload:
        _preload()
        if launcher.is_abandoned():
            log.info("launcher_abandoned")
            return 0
    warm_up()
    log.info(
        "launcher_ready",
        pid=os.getpid(),
        user=launcher.user,
        uid=os.getuid(),
        preloaded=preload,
    )
    launcher.run()
    log.info("launcher_ended")
    return 0


def _preload() -> None:
    """Import the agents' libraries, so that no executor has to."""
    try:
        import_ahead()
    except Exception:
        # An agent that needs it tries again, and reports what is wrong.
        log.exception("not_preloaded")


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

    def __init__(self, listener: socket.socket, orphan_timeout: float, *, preloaded: bool) -> None:
        self.user = pwd.getpwuid(os.getuid()).pw_name
        listener.setblocking(False)
        self._listener = listener
        #: Where daemons find us; nowhere once another launcher has taken our place.
        self._path: str = listener.getsockname()
        self._allowed = {0, peer_uid(listener)}
        self._orphan_timeout = orphan_timeout
        self._preloaded = preloaded
        self._connections: dict[int, Connection] = {}
        self._offspring = Offspring()
        self._handlers: Handlers = {
            HELLO.name: (ParamsReader(Nothing), self._hello),
            SPAWN.name: (ParamsReader(SpawnParams), self._spawn),
            CALL_OFF.name: (ParamsReader(CallOffParams), self._call_off),
            SIGNAL_FAMILY.name: (ParamsReader(SignalParams), self._signal),
            COUNT_FAMILY.name: (ParamsReader(Family), self._count),
            RETIRE.name: (ParamsReader(Nothing), self._retire),
        }
        self._retiring = False
        self._no_fork_before = 0.0
        #: When to look again for keepers that ended, if that was not possible.
        self._reap_at: float | None = None
        self._alone_since = time.monotonic()
        self._wake, wake = socket.socketpair()
        for end in (self._wake, wake):
            end.setblocking(False)
        self._wake_writer = wake
        self._poll = select.poll()

    def is_abandoned(self) -> bool:
        """Tell whether a daemon has connected by now, and every one that did has hung up.

        Imports take long on a busy machine, and the daemon may have been killed meanwhile.
        """
        while (sock := self._take_connection()) is not None:
            self._add(sock)
        connected = list(self._connections.items())
        for fd, connection in connected:
            if connection.is_hung_up():
                self._drop(fd)
        return bool(connected) and not self._connections

    def run(self) -> None:
        """Serve until it is time to go."""
        # Whoever waits to be accepted has not been able to connect before.
        self._alone_since = time.monotonic()
        # Not before: the event loop of a rehearsal takes the signals, and lets go of them.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._retire_on_signal)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wake_writer.fileno())
        self._poll.register(self._listener.fileno(), select.POLLIN)
        self._poll.register(self._wake.fileno(), select.POLLIN)
        while not self._done():
            ready = self._poll.poll(self._patience())
            if not ready and self._offspring.wants_keeper and not self._retiring:
                # Not while there is something else to do: whoever was just started needs the time.
                self._get_ahead()
            for fd, events in ready:
                self._attend(fd, events)
            if self._reap_at is not None and time.monotonic() >= self._reap_at:
                self._reap()
            if not self._connections:
                self._give_up_if_unreachable()
        self._offspring.dismiss_keeper()

    def _attend(self, fd: int, events: int) -> None:
        if fd == self._wake.fileno():
            with contextlib.suppress(BlockingIOError):
                self._wake.recv(4096)
            self._reap()
        elif fd in self._offspring.lines:
            self._poll.unregister(fd)
            self._offspring.hear(fd)
            self._watch_starts()
        elif fd in self._connections:
            # A daemon that has hung up wants nothing any more: least of all an executor.
            if events & select.POLLHUP or not self._serve(self._connections[fd]):
                self._drop(fd)
        elif fd == self._listener.fileno():
            self._accept()
        else:
            # A start that was called off: its line is closed already.
            with contextlib.suppress(KeyError):
                self._poll.unregister(fd)

    def _reap(self) -> None:
        """Take note of the keepers that ended; again later if nobody can be looked at now."""
        self._reap_at = None
        try:
            self._offspring.reap()
        except OSError as error:
            log.warning("not_reaped", why=str(error))
            self._reap_at = time.monotonic() + _RETRY_PAUSE

    def _watch_starts(self) -> None:
        """Have the loop wake up for what keepers report."""
        for line in self._offspring.lines:
            self._poll.register(line, select.POLLIN)

    def _give_up_if_unreachable(self) -> None:
        """End everything if the daemon's folder was removed: nobody can ever come back.

        Our log is in that folder, and so is our socket: both are gone then. A launcher of another
        user cannot look at the socket.
        """
        found = os.fstat(2)
        has_no_log = stat.S_ISREG(found.st_mode) and found.st_nlink == 0
        if has_no_log and not _is_there(self._path):
            families = list(self._offspring.families.values())
            count = sum(self._offspring.signal(each, signal.SIGKILL) for each in families)
            log.warning("unreachable", processes=count)
            self._begin_retirement()

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
            for line in self._offspring.lines:
                self._poll.unregister(line)
                self._offspring.hear(line)
            connection.close()

    def _done(self) -> bool:
        if self._offspring.busy:
            return False
        if self._retiring:
            return True
        lonely = time.monotonic() - self._alone_since
        return not self._connections and lonely >= self._orphan_timeout

    def _patience(self) -> float | None:
        """Milliseconds after which to look again whether there is anything to do."""
        if self._reap_at is not None:
            return _RETRY_PAUSE * 1000
        if self._offspring.wants_keeper and not self._retiring:
            return max(_QUIET, (self._no_fork_before - time.monotonic()) * 1000)
        if self._connections:
            return None
        if self._offspring.busy:
            return _LOOK * 1000
        lonely = time.monotonic() - self._alone_since
        return max(1.0, min(self._orphan_timeout - lonely, _LOOK) * 1000)

    def _retire_on_signal(self, number: int, _: object) -> None:
        log.info("retiring", signal=signal.Signals(number).name)
        self._begin_retirement()

    def _begin_retirement(self) -> None:
        """Take no new daemon, and end when everything that was started has ended."""
        if not self._retiring:
            self._retiring = True
            self._poll.unregister(self._listener.fileno())
            self._listener.close()

    # ── the daemon ───────────────────────────────────────────────────────────────────────────

    def _accept(self) -> None:
        sock = self._take_connection()
        if sock is None:
            # Without room for another descriptor it stays ready: do not ask for it all the time.
            time.sleep(_ACCEPT_PAUSE)
        else:
            self._add(sock)

    def _take_connection(self) -> socket.socket | None:
        try:
            return self._listener.accept()[0]
        except OSError:
            return None

    def _add(self, sock: socket.socket) -> None:
        if peer_uid(sock) not in self._allowed or len(self._connections) >= _MAX_CONNECTIONS:
            log.warning("connection_refused", uid=peer_uid(sock))
            sock.close()
            return
        self._connections[sock.fileno()] = Connection(sock)
        self._poll.register(sock.fileno(), select.POLLIN)

    def _drop(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._connections.pop(fd).close()
        self._alone_since = time.monotonic()

    def _serve(self, connection: Connection) -> bool:
        """Do what one packet asks. False if the daemon hung up."""
        request = connection.receive()
        if request is None:
            return False
        serve(request, self._handlers)
        return True

    def _hello(self, _: Nothing, __: Request) -> HelloResult:
        own = process_of(os.getpid())
        assert own is not None
        return HelloResult(
            agents_folder=os.environ.get(AGENTS_FOLDER),
            version=agor.__version__,
            user=self.user,
            uid=os.getuid(),
            process=own,
            preloaded=self._preloaded,
        )

    def _spawn(self, params: SpawnParams, request: Request) -> object:
        def report(outcome: Outcome) -> None:
            if isinstance(outcome, Family):
                request.respond(outcome)
            else:
                request.refuse(outcome)

        if request.truncated:
            raise run_out(errno.EMFILE)
        self._offspring.start(params, request.take_descriptors(), report)
        self._watch_starts()
        return LATER

    def _call_off(self, params: CallOffParams, _: Request) -> Counted:
        return Counted(count=self._offspring.call_off(params.executor_id))

    def _signal(self, params: SignalParams, _: Request) -> Counted:
        return Counted(count=self._offspring.signal(params.family, params.signal))

    def _count(self, family: Family, _: Request) -> Counted:
        return Counted(count=self._offspring.count(family))

    def _retire(self, _: Nothing, __: Request) -> Nothing:
        self._begin_retirement()
        return Nothing()
