"""AGOR_HOME: the folder of one daemon, and who serves it.

HOME/                  made 0700; nobody else may write to it
  config.yaml          0600; see agor.config
  token                0600; opens the API
  port                 0600; where the daemon listened last, preferred at its next start
  agor.db              the database, unless it is elsewhere
  audit.anchors        0600; what the audit log was, outside of the database
  agents/              agents' programs, unless they are elsewhere; see agor.installing.folder
  logs/daemon.log      0700; of a daemon that was started in the background
  run/                 0700; sockets and whatever else has no meaning after a restart
    daemon.lock        locked for life by the daemon; holds its pid and start
    daemon.json        how it is reached; see `Description`

The lock alone says whether there is a daemon: the kernel frees it with the process, however that
ends. Files that a killed daemon left behind are never believed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

import msgspec
from msgspec import Struct

from agor import linux, private
from agor.errors import BadInput, DaemonNotRunning, DaemonRunning
from agor.protocol.launching import Process

T = TypeVar("T")

#: Seconds to go on asking for the lock: whoever only looks at it holds it for an instant too.
_LOCK_PATIENCE = 1.0
#: The lock file is always as long, so that no look at it sees the end of something else.
_HOLDER_BYTES = 128
_WAIT = "Wait until agor restore has ended; it may be waiting for an answer in its terminal."
_TOKEN = re.compile(r"[!-~]{32,}")


class Description(Struct, frozen=True, kw_only=True):
    """What a running daemon says of itself in `run/daemon.json`."""

    url: str
    pid: int
    version: str
    #: Milliseconds since 1970.
    started_at: int
    #: Ticks between the start of the machine and its own, since pids are used again.
    process_start: int


@dataclass(frozen=True, slots=True)
class Running:
    """Who holds the lock. A daemon without a description is starting, or `ending`."""

    process: Process | None
    description: Description | None
    ending: bool = False
    #: It is no daemon, but puts a backup in place.
    restoring: bool = False


class _Holder(Process, frozen=True):
    """What the lock file says of who holds it."""

    ending: bool = False
    restoring: bool = False


class Home:
    """One AGOR_HOME. Making this object touches nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.config_file = self.folder / "config.yaml"
        self.token_file = self.folder / "token"
        self.port_file = self.folder / "port"
        self.anchor_file = self.folder / "audit.anchors"
        self.runtime = self.folder / "run"
        self.log_file = self.folder / "logs" / "daemon.log"
        self.lock_file = self.runtime / "daemon.lock"
        self.description_file = self.runtime / "daemon.json"
        self._lock_fd: int | None = None

    @classmethod
    def find(cls) -> Self:
        """Take AGOR_HOME, else ~/.agor."""
        try:
            return cls(Path(os.environ.get("AGOR_HOME") or "~/.agor").expanduser())
        except RuntimeError:
            raise BadInput(
                "this user has no home directory", hint="Set AGOR_HOME to a folder of yours."
            ) from None

    def path(self, template: str) -> Path:
        """Give the path that a setting names, which may begin with {home}."""
        return Path(template.replace("{home}", str(self.folder), 1))

    def prepare(self) -> None:
        """Make the folders; refuse those that others could change."""
        private.make_folder(self.folder, private.MINE_TO_WRITE)
        private.make_folder(self.runtime)
        private.make_folder(self.log_file.parent)

    # ── the token ────────────────────────────────────────────────────────────────────────────

    def token(self) -> str:
        """Give the token that opens the API; it is made if there is none yet."""
        known = self.read_token()
        if known is not None:
            return known
        self.prepare()
        with (
            private.telling(self.token_file),
            tempfile.NamedTemporaryFile(dir=self.folder, prefix=".token-") as fresh,
        ):
            fresh.write(f"agor_{secrets.token_urlsafe(32)}\n".encode())
            fresh.flush()
            os.fsync(fresh.fileno())
            # Whoever links first wins, and nobody ever sees half a token.
            with contextlib.suppress(FileExistsError):
                self.token_file.hardlink_to(fresh.name)
            private.sync_folder(self.folder)
        return self.token()

    def read_token(self) -> str | None:
        """Give the token, if there is one. One that others may have read is refused."""
        again = f"Remove it (rm {self.token_file}); the next start of the daemon makes a new one."
        try:
            with self.token_file.open("rb") as file:
                found = os.fstat(file.fileno())
                token = file.read(4096).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadInput(f"cannot read {self.token_file}: {error.strerror}") from error
        if found.st_mode & private.MINE_ALONE:
            raise BadInput(f"{self.token_file} could be read by others", hint=again)
        if not _TOKEN.fullmatch(token):
            raise BadInput(f"{self.token_file} holds no token", hint=again)
        return token

    # ── the daemon of this home ──────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def lock(self, *, restoring: bool = False) -> Iterator[None]:
        """Be the daemon of this home, or keep daemons out while a backup is restored.

        Raises `DaemonRunning` if somebody else is or does.
        """
        self.prepare()
        fd = private.open_to_write(self.lock_file)
        try:
            if not private.locked_within(fd, _LOCK_PATIENCE):
                raise self._in_use(restoring=restoring)
            self._lock_fd = fd
            # A daemon before us may have been killed.
            self.description_file.unlink(missing_ok=True)
            self._say_who_holds(restoring=restoring)
            try:
                yield
            finally:
                self.description_file.unlink(missing_ok=True)
        finally:
            self._lock_fd = None
            os.close(fd)

    def _say_who_holds(self, *, ending: bool = False, restoring: bool = False) -> None:
        process = _this_process()
        told = msgspec.json.encode(_Holder(process.pid, process.started, ending, restoring))
        assert self._lock_fd is not None, "who says so has the lock"
        with private.telling(self.lock_file):
            # In this order: whoever looks meanwhile sees the one or the other.
            os.pwrite(self._lock_fd, told.ljust(_HOLDER_BYTES), 0)
            os.ftruncate(self._lock_fd, _HOLDER_BYTES)

    def describe(self, url: str, version: str) -> Description:
        """Say how this process, which holds the lock, is reached."""
        process = _this_process()
        description = Description(
            url=url,
            pid=process.pid,
            version=version,
            started_at=time.time_ns() // 1_000_000,
            process_start=process.started,
        )
        private.write(self.description_file, msgspec.json.encode(description) + b"\n")
        return description

    @contextlib.contextmanager
    def described(self, url: str, version: str) -> Iterator[None]:
        """Say how we are reached for as long as the block lasts: as long as the port is ours.

        Clients show their token to who is said to be there. The lock is held for longer.
        """
        self.describe(url, version)
        try:
            yield
        finally:
            self.description_file.unlink(missing_ok=True)
            self._say_who_holds(ending=True)

    def last_port(self) -> int:
        """Return the port of the last start, so that bookmarks survive a restart; 0 if unknown."""
        port = _read(self.port_file, int)
        return port if port is not None and 0 < port < 65_536 else 0

    def keep_port(self, port: int) -> None:
        """Remember the port for the next start. The caller serves this home."""
        if port != self.last_port():
            private.write(self.port_file, b"%d\n" % port)

    def running(self) -> Running | None:
        """Tell who serves this home now; None if nobody does."""
        try:
            fd = os.open(self.lock_file, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise BadInput(
                f"cannot look at {self.lock_file}: {error.strerror}",
                hint="Is this somebody else's AGOR_HOME?",
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._holder()
        finally:
            os.close(fd)
        return None

    def _holder(self) -> Running:
        holder = _read(self.lock_file, _Holder)
        if holder is None or not linux.is_alive(holder):
            # It has the lock and has not yet said who it is.
            return Running(None, None)
        process = Process(holder.pid, holder.started)
        found = _read(self.description_file, Description)
        if found is not None and (found.pid, found.process_start) != (process.pid, process.started):
            found = None
        return Running(process, found, holder.ending, holder.restoring)

    def refuse_while_restoring(self, running: Running) -> None:
        """Raise `DaemonNotRunning` if a backup is being restored: no daemon can be started now."""
        if running.restoring:
            raise DaemonNotRunning(self._restoring(running), hint=_WAIT)

    def _restoring(self, running: Running) -> str:
        who = f" (process {running.process.pid})" if running.process else ""
        return f"a backup is being restored into {self.folder}{who}"

    def _in_use(self, *, restoring: bool) -> DaemonRunning:
        holder = self._holder()
        if holder.restoring:
            return DaemonRunning(self._restoring(holder), hint=_WAIT)
        facts = [f"process {holder.process.pid}"] if holder.process else []
        if holder.description:
            facts.insert(0, holder.description.url)
        who = f" ({', '.join(facts)})" if facts else ""
        if restoring:
            return DaemonRunning(
                f"a daemon serves {self.folder}{who}; nothing was changed",
                hint="End it first: agor daemon stop",
            )
        return DaemonRunning(
            f"another daemon serves {self.folder} already{who}",
            hint="`agor daemon stop` ends it. A second one needs an AGOR_HOME of its own.",
        )


def _this_process() -> Process:
    process = linux.process_of(os.getpid())
    assert process is not None, "we are alive"
    return process


def _read(path: Path, form: type[T]) -> T | None:
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(path.read_bytes(), type=form)
    return None
