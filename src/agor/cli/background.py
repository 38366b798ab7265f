"""A daemon in the background: how it is started, watched until it serves, asked, and ended.

Nothing here believes a file: the lock says whether there is a daemon, and it is signalled as a
process that cannot be taken for another one.
"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from agor import linux
from agor.cli import log_file
from agor.cli.asking import remark
from agor.errors import DaemonError, DaemonNotRunning
from agor.home import Description, Home
from agor.protocol.launching import Process

#: Seconds from its start until it serves: a large database may have to be migrated first.
_START_TIMEOUT = 60.0
#: Seconds for one answer, and for a killed process to be gone.
_ANSWER_TIMEOUT = 5.0
_KILL_TIMEOUT = 5.0
_INTERVAL = 0.05
_LINES_OF_LOG = 20
_LONGEST_ANSWER = 1024 * 1024


def start(home: Home, arguments: Sequence[str]) -> tuple[Description, bool]:
    """Have a daemon that serves; tells whether it is a new one."""
    if home.running() is not None and (found := _Watch(home, None, 0).until_it_serves()):
        return found, False
    home.prepare()
    with log_file.open_log(home.log_file) as log:
        written = log.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agor.cli.main", "daemon", "run", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=os.environ | {"AGOR_HOME": str(home.folder)},
            start_new_session=True,
        )
    description = _Watch(home, process, written).until_it_serves()
    assert description is not None, "the end of a process that we started is an error"
    return description, description.pid == process.pid


def stop(home: Home, patience: float, *, force: bool) -> Process | None:
    """End the daemon in order, or else by force; returns the process that it was, if any."""
    process = _identify(home)
    if process is None:
        return None
    linux.send(process, signal.SIGTERM)
    if _gone_within(home, process, patience):
        return process
    if not force:
        raise DaemonError(
            f"the daemon (process {process.pid}) was asked to end and has not done so in "
            f"{patience:.0f} s",
            hint="`agor daemon logs` may say why. `agor daemon stop --force` kills it: nothing "
            "that was acknowledged is lost, and the next start takes its executors back.",
        )
    _kill(home, process)
    return process


def kill(home: Home) -> None:
    """Kill the daemon, if there is one, as a crash would."""
    process = _identify(home)
    if process is not None:
        _kill(home, process)


def _kill(home: Home, process: Process) -> None:
    linux.send(process, signal.SIGKILL)
    if not _gone_within(home, process, _KILL_TIMEOUT):
        raise DaemonError(
            f"the daemon (process {process.pid}) cannot be killed",
            hint="Is it another user's, or does it wait for a broken disk?",
        )


def ask(
    url: str, path: str, token: str | None = None, check: Callable[[], None] = lambda: None
) -> tuple[int, bytes]:
    """GET from the daemon: status and body. OSError or HTTPException if it does not answer.

    `check` is called when there is a connection, before anything is sent.
    """
    place = urlsplit(url)
    connection = http.client.HTTPConnection(
        place.hostname or "", place.port, timeout=_ANSWER_TIMEOUT
    )
    try:
        connection.connect()
        check()
        connection.request(
            "GET", path, headers={"Authorization": f"Bearer {token}"} if token else {}
        )
        answer = connection.getresponse()
        return answer.status, answer.read(_LONGEST_ANSWER)
    finally:
        connection.close()


class _Readiness(Struct):
    """What the daemon answers to GET /readyz."""

    status: str
    #: The names of the checks that fail.
    failing: list[str]


class _Watch:
    """Waits for a daemon that was started, by us or by somebody else, to serve."""

    def __init__(self, home: Home, process: subprocess.Popen[bytes] | None, written: int) -> None:
        self._home = home
        self._process = process
        #: How much was in the log before.
        self._written = written
        self._why_not = "it has not begun to listen"

    def until_it_serves(self) -> Description | None:
        """Wait; say why if ours ends or it takes too long. None: somebody else's has ended."""
        deadline = time.monotonic() + _START_TIMEOUT
        while time.monotonic() < deadline:
            # In this order: a process that has ended by now cannot take the lock any more.
            ended = None if self._process is None else self._process.poll()
            running = self._home.running()
            if running is not None:
                self._home.refuse_while_restoring(running)
            if running is not None and running.description is not None:
                if self._is_ready(running.description):
                    return running.description
            elif running is None and ended is not None:
                raise self._ended(ended)
            elif running is None and self._process is None:
                return None
            time.sleep(_INTERVAL)
        raise DaemonNotRunning(
            f"the daemon runs and is not ready after {_START_TIMEOUT:.0f} s: {self._why_not}",
            hint=f"See `agor daemon logs` ({self._home.log_file}); `agor daemon stop` ends it.",
        )

    def _is_ready(self, description: Description) -> bool:
        try:
            status, body = ask(description.url, "/readyz")
        except (OSError, http.client.HTTPException) as error:
            self._why_not = f"it does not answer ({error})"
            return False
        if status == http.HTTPStatus.OK:
            return True
        found = _readiness(body)
        if found is not None and found.status == "degraded":
            # It serves, and whoever is to mend that needs it.
            failing = ", ".join(found.failing)
            remark(f"Not all is well with the daemon ({failing}). See: agor daemon status")
            return True
        self._why_not = f"it answers with {status}" if found is None else f"it is {found.status}"
        return False

    def _ended(self, code: int) -> DaemonNotRunning:
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        tail, _ = log_file.last_lines(self._home.log_file, _LINES_OF_LOG, self._written)
        said = f"It said:\n{tail.rstrip()}" if tail.strip() else "It said nothing."
        return DaemonNotRunning(f"the daemon has ended while it started ({how})", hint=said)


def _identify(home: Home) -> Process | None:
    """Tell which process the daemon is; wait if it is only just becoming one."""
    deadline = time.monotonic() + _ANSWER_TIMEOUT
    while (running := home.running()) is not None:
        home.refuse_while_restoring(running)
        if running.process is not None:
            return running.process
        if time.monotonic() > deadline:
            raise DaemonError(
                f"somebody holds {home.lock_file} and is no daemon",
                hint=f"fuser {home.lock_file} tells who.",
            )
        time.sleep(_INTERVAL)
    return None


def _gone_within(home: Home, process: Process, seconds: float) -> bool:
    """Wait until a daemon is gone, and its lock with it: the next one must find that free."""
    deadline = time.monotonic() + seconds
    while linux.is_alive(process) or _holds_lock(home, process):
        if time.monotonic() > deadline:
            return False
        time.sleep(_INTERVAL)
    return True


def _holds_lock(home: Home, process: Process) -> bool:
    running = home.running()
    return running is not None and running.process in (process, None)


def _readiness(body: bytes) -> _Readiness | None:
    try:
        return msgspec.json.decode(body, type=_Readiness)
    except msgspec.DecodeError:
        return None
