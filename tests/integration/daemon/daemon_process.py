"""A real daemon as a process of its own, on a home of its own, for tests to use and to kill.

    with running_daemon({"execution.max_executors": 4}) as daemon:
        async with daemon.client() as client: …
        daemon.kill()
        daemon.start()

Nothing of it is left at the end: not the daemon, nor its launchers, executors and their tools,
whoever was killed and whatever hid; see `warden`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from agor.client import Client
from agor.config.editing import set_value
from agor.home import Description, Home
from agor.linux import family, process_of, send
from agor.protocol.launching import Family, Process
from tests.database import put_database
from tests.integration.control_groups import remove_groups
from tests.nursery import Forked

#: Seconds for anything that should come at once; generous, because the machine may be busy.
PATIENCE = 30.0
#: Seconds between looks at what gives no event: a file that appears, a port that answers.
_PAUSE = 0.01


@contextlib.contextmanager
def running_daemon(
    settings: Mapping[str, Any] | None = None, *, cold: bool = False
) -> Iterator[DaemonProcess]:
    """Have a daemon on a new home, with these settings (`{"feed.stall_timeout_ms": 500}`).

    One that is started `cold` shows its own environment and command line in /proc.
    """
    # Not pytest's folder: sockets go below it, and their paths must be short.
    home = Path(tempfile.mkdtemp(prefix="agor-"))
    put_database(home)
    daemon = DaemonProcess(home, settings, cold=cold)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.clean_up()
        shutil.rmtree(home)


class DaemonProcess:
    """One home and the daemon on it. Everything blocks; from a coroutine, use a thread."""

    def __init__(
        self, home: Path, settings: Mapping[str, Any] | None = None, *, cold: bool = False
    ) -> None:
        self.home = Home(home)
        #: What every daemon on this home wrote, one after the other.
        self.log_file = home / "test.log"
        self.log_file.touch()
        self._running: int | None = None
        self._said: list[dict[str, Any]] = []
        self._unread = b""
        self.configure(settings or {})
        self._cold = cold
        self._warden = _warden()

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Change settings in config.yaml; a daemon reads them when it starts."""
        for name, value in settings.items():
            set_value(self.home, name, value if isinstance(value, str) else json.dumps(value))

    # ── its life ─────────────────────────────────────────────────────────────────────────────

    def start(self, port: int = 0, env: Mapping[str, str] | None = None) -> None:
        """Start a daemon, and wait until it can take work."""
        self.launch(port, env)
        self.wait_ready()

    def launch(self, port: int = 0, env: Mapping[str, str] | None = None) -> None:
        """Start a daemon, and do not wait for it."""
        assert self._running is None, "it runs already"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AGOR_")}
        order = {
            "arguments": ["daemon", "run", "--port", str(port)],
            "cold": self._cold,
            "env": clean | {"AGOR_HOME": str(self.home.folder)} | dict(env or {}),
            "log": str(self.log_file),
        }
        assert self._warden.stdin is not None
        self._warden.stdin.write(json.dumps(order).encode() + b"\n")
        self._warden.stdin.flush()
        self._running = self._hear(lambda said: "ended" not in said)["pid"]

    def wait_ready(self) -> None:
        """Wait until `run/daemon.json` is there and `/readyz` says so."""
        deadline = time.monotonic() + PATIENCE
        while not self._ready():
            assert self.running, f"the daemon did not come up\n{self.log[-4000:]}"
            assert time.monotonic() < deadline, f"it is not ready\n{self.log[-4000:]}"
            time.sleep(_PAUSE)

    def kill(self) -> None:
        """Kill -9 the daemon alone, as a crash would, and wait until it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.wait_ended() == -signal.SIGKILL

    def stop(self) -> None:
        """End the daemon in order."""
        os.kill(self.pid, signal.SIGTERM)
        code = self.wait_ended()
        assert code == 0, f"it ended with {code}\n{self.log[-4000:]}"

    def restart(self, port: int = 0) -> None:
        """End the daemon in order and start another; on the same port, unless told which."""
        self.stop()
        self.start(port)

    def wait_ended(self) -> int:
        """Wait until the daemon has ended, by whatever; its exit code, negative for a signal."""
        pid = self.pid
        code: int = self._hear(lambda said: said.get("pid") == pid and "ended" in said)["ended"]
        self._running = None
        return code

    @property
    def running(self) -> bool:
        """Whether it has not ended, as far as is known now."""
        self._listen(0)
        return not any(said.get("pid") == self._running and "ended" in said for said in self._said)

    def clean_up(self) -> None:
        """End the daemon and all that it ever started."""
        assert self._warden.stdin is not None
        assert self._warden.stdout is not None
        self._warden.stdin.close()
        try:
            self._warden.wait(PATIENCE)
        finally:
            self._warden.kill()
            self._warden.wait()
            self._warden.stdout.close()
        remove_groups(self.home.runtime)

    # ── how it is reached ────────────────────────────────────────────────────────────────────

    @property
    def pid(self) -> int:
        """The daemon's process."""
        assert self._running is not None, "it does not run"
        return self._running

    @property
    def description(self) -> Description:
        """What it says of itself in `run/daemon.json`."""
        running = self.home.running()
        assert running is not None
        assert running.description is not None
        return running.description

    @property
    def url(self) -> str:
        """Where it serves."""
        return self.description.url

    @property
    def port(self) -> int:
        """The port on which it serves."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    @property
    def token(self) -> str:
        """What opens its API."""
        return self.home.token()

    def client(self) -> Client:
        """A client that finds the daemon again after a restart."""
        return Client.local(self.home)

    # ── what it has started ──────────────────────────────────────────────────────────────────

    def everything(self) -> list[Process]:
        """List the daemon, and all that any daemon on this home has started and that lives."""
        warden = process_of(self._warden.pid)
        return [] if warden is None else family([warden])[1:]

    def executors(self) -> list[Family]:
        """List the executors that live, each with its keeper."""
        alive = set(self.everything())
        found = []
        for path in (self.home.runtime / "executors").glob("*/family"):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                known = msgspec.json.decode(path.read_bytes(), type=Family)
                if known.executor in alive:
                    found.append(known)
        return found

    def launchers(self) -> list[Process]:
        """List the launchers that live."""
        # Their forks have the same command line; they are children of a daemon or of the warden.
        parents = (self._running, self._warden.pid)
        return [
            process
            for process in self.everything()
            if b"--launcher" in _read(process, "cmdline") and _parent(process) in parents
        ]

    def writers(self) -> list[Process]:
        """List the processes that write to the database: one, and that of a daemon just killed."""
        return [
            process
            for process in self.everything()
            if b"agor.daemon.store.sqlite.writing" in _read(process, "cmdline")
        ]

    def wait_only(self, *left: Process) -> None:
        """Wait until nothing else is left of all that was started; there is no event for that."""
        deadline = time.monotonic() + PATIENCE
        while rest := set(self.everything()).difference(left):
            shown = [(each.pid, _read(each, "cmdline")) for each in rest]
            assert time.monotonic() < deadline, f"still there: {shown}"
            time.sleep(_PAUSE)

    # ── what it says ─────────────────────────────────────────────────────────────────────────

    @property
    def log(self) -> str:
        """All that the daemons on this home have logged."""
        return self.log_file.read_text(errors="replace")

    def _ready(self) -> bool:
        running = self.home.running()
        if running is None or running.description is None:
            return False
        if running.description.pid != self._running:
            return False
        address = urlsplit(running.description.url)
        connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=PATIENCE
        )
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def _hear(self, wanted: Any) -> dict[str, Any]:
        """Wait until the warden says something that is wanted."""
        deadline = time.monotonic() + PATIENCE
        while True:
            for said in self._said:
                if wanted(said):
                    self._said.remove(said)
                    return said
            patience = deadline - time.monotonic()
            assert patience > 0, f"it did not happen\n{self.log[-4000:]}"
            self._listen(patience)

    def _listen(self, patience: float) -> None:
        assert self._warden.stdout is not None
        ready, _, _ = select.select([self._warden.stdout], [], [], patience)
        if ready:
            data = os.read(self._warden.stdout.fileno(), 64 * 1024)
            assert data, "the warden is gone"
            *lines, self._unread = (self._unread + data).split(b"\n")
            self._said += map(json.loads, lines)


def _warden() -> Forked:
    """Have a process that daemons are started from, and that outlives none of us."""
    (reading, orders), (news, telling) = os.pipe(), os.pipe()
    warden = Forked("warden", [], env=os.environ, fds=(reading, telling, 2))
    os.close(reading)
    os.close(telling)
    warden.stdin, warden.stdout = os.fdopen(orders, "wb"), os.fdopen(news, "rb")
    return warden


def kill(process: Process) -> bool:
    """Kill -9 one process. False if it was gone already."""
    return send(process, signal.SIGKILL)


def _read(process: Process, name: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process.pid}/{name}").read_bytes()
    return b""


def _parent(process: Process) -> int:
    stat = _read(process, "stat")
    return int(stat.rpartition(b")")[2].split()[1]) if stat else 0
