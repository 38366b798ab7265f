"""The pool's runtime folder: what each executor has there, and what is left after a crash.

RUNTIME/                     0700, ours
  launchers/NAME.sock .log   one per Unix identity, until there is one with the agents' libraries:
  preloaded/NAME.sock .log   the same
  executors/ID.sock          where the executor is reached (execution.socket_path_template)
  executors/ID/              log, report, family: what is known of it without any database
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from pathlib import Path
from typing import TypeVar

import msgspec

from agor.daemon.pool.settings import PoolSettings
from agor.errors import BadInput, SocketUnusable
from agor.protocol.launching import ExitReport, Family
from agor.rpc import unix

T = TypeVar("T")

#: Characters of an executor's id. Short, since a socket's path cannot be long.
ID_LENGTH = 16
_ID = re.compile(rf"[0-9a-f]{{{ID_LENGTH}}}")
#: Bytes of a log that are shown with an end.
_TAIL = 4096


class Folders:
    """The runtime folder of one daemon."""

    def __init__(self, settings: PoolSettings) -> None:
        self._settings = settings
        self.executors = settings.runtime / "executors"
        self.launchers = settings.runtime / "launchers"
        self.preloaded_launchers = settings.runtime / "preloaded"
        for folder in (
            settings.runtime,
            self.executors,
            self.launchers,
            self.preloaded_launchers,
        ):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        socket_path = settings.socket_path("0" * ID_LENGTH)
        check_private(socket_path.parent)
        unix.check_length(str(socket_path))

    def executor(self, executor_id: str) -> ExecutorFolder:
        """Tell where an executor's things are."""
        return ExecutorFolder(self.executors / executor_id, self._settings.socket_path(executor_id))

    def known(self) -> list[str]:
        """List the executors that have a folder."""
        folders = (entry for entry in self.executors.iterdir() if entry.is_dir())
        return sorted(entry.name for entry in folders if _ID.fullmatch(entry.name))

    def stray_sockets(self) -> list[Path]:
        """List sockets whose folder is gone."""
        parent, known = self._settings.socket_path("0").parent, set(self.known())
        wanted = {self._settings.socket_path(executor_id) for executor_id in known}
        return [
            path
            for path in parent.iterdir()
            if path not in wanted and stat.S_ISSOCK(path.lstat().st_mode)
        ]


class ExecutorFolder:
    """What one executor has on disk."""

    def __init__(self, folder: Path, socket_path: Path) -> None:
        self.folder = folder
        self.socket_path = socket_path

    def create(self, ours: contextlib.ExitStack) -> list[int]:
        """Make it; returns the listening socket, the log and the report, to be handed over.

        `ours` closes our copies of them.
        """
        self.folder.mkdir(mode=0o700)
        listener = ours.enter_context(unix.bind(self.socket_path).listener)
        handed_over = [listener.fileno()]
        for name in ("log", "report"):
            fd = os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            ours.callback(os.close, fd)
            handed_over.append(fd)
        return handed_over

    def remove(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(FileNotFoundError):
            self.socket_path.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)

    def write_family(self, family: Family) -> None:
        """Keep who its processes are, for whoever finds this folder."""
        (self.folder / "family").write_bytes(msgspec.json.encode(family))

    def read_family(self) -> Family | None:
        """Tell who its processes are, if that was known."""
        return self._read("family", Family)

    def read_report(self) -> ExitReport | None:
        """Tell how it ended, if its keeper could say so."""
        return self._read("report", ExitReport)

    def log_tail(self) -> str:
        """Show the last of what it wrote to standard error."""
        try:
            with (self.folder / "log").open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL))
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def _read(self, name: str, form: type[T]) -> T | None:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode((self.folder / name).read_bytes(), type=form)
        return None


def check_private(folder: Path) -> None:
    """Refuse a folder that others can enter: whoever reaches a socket could speak for us."""
    try:
        found = folder.stat()
    except OSError as error:
        raise SocketUnusable(f"cannot use the folder {folder}: {error.strerror}") from error
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise BadInput(
            f"{folder} can be entered by others than the daemon's user",
            hint=f"chmod 700 {folder}, or choose another execution.socket_path_template.",
        )
