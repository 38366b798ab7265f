"""The folder of agents' programs. What is in use there is never changed, only replaced whole.

FOLDER/
  bin/NAME             a link to the program that is in use
  installed/NAME-VERSION-…/   what npm has put there, once it was whole and its program had started
  installed/.new-…/    what is being installed; after a crash the next install removes it
  .lock                locked by who installs

A link is replaced at once, so whoever looks finds the old program or the new one. The one before is
kept, since agents that run may still read from it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from agor import private
from agor.errors import InstallFailed

#: Readable by all: agents may run as other Unix users. Inside of a private home it changes nothing.
_FOLDER_MODE = 0o755
_NEW = ".new-"
#: Seconds to find out whether somebody else installs, and to wait for them.
_GLANCE = 0.2
_PATIENCE = 1800.0


class AgentsFolder:
    """One such folder. Making this object touches nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._programs = path / "bin"
        self._installed = path / "installed"

    def program(self, name: str) -> Path | None:
        """Give a program that is in use; None if it is not there, or cannot be run."""
        path = self._programs / name
        return path if os.access(path, os.X_OK) else None

    def home_of(self, name: str) -> Path | None:
        """Give the folder that a program was installed into."""
        try:
            inside = (self._programs / name).resolve(strict=True).relative_to(
                self._installed.resolve()
            )  # fmt: skip
        except (OSError, ValueError):
            return None
        return self._installed / inside.parts[0]

    @contextlib.contextmanager
    def locked(self, on_wait: Callable[[], None]) -> Iterator[int]:
        """Be the only one who installs here. Gives the descriptor that holds the lock."""
        with _telling(self.path):
            for folder in (self._programs, self._installed):
                _make_readable(folder)
            fd = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not private.locked_within(fd, _GLANCE):
                on_wait()
                if not private.locked_within(fd, _PATIENCE):
                    raise InstallFailed(
                        f"somebody else has been installing into {self.path} for half an hour",
                        hint="Look for an npm that hangs; the lock goes with its process.",
                    )
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def new(self) -> Iterator[Path]:
        """Have a folder to install into. It goes away unless `use` was called with it."""
        with _telling(self.path):
            for left in self._installed.glob(f"{_NEW}*"):
                shutil.rmtree(left, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=_NEW, dir=self._installed))
            folder.chmod(_FOLDER_MODE)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def use(self, name: str, version: str, new: Path, program: Path) -> Path:
        """From now on, this is the program; `program` is where it is in the new folder."""
        before = self.home_of(name)
        kept = self._installed / f"{name}-{version}-{new.name.removeprefix(_NEW)}"
        link = self._programs / name
        with _telling(link):
            new.rename(kept)
            fresh = self._programs / f".{name}.new"
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(Path("..") / "installed" / kept.name / program.relative_to(new))
            fresh.replace(link)
            private.sync_folder(self._programs)
        older = re.compile(rf"{re.escape(name)}-\d")
        for folder in self._installed.iterdir():
            if older.match(folder.name) and folder not in (kept, before):
                shutil.rmtree(folder, ignore_errors=True)
        return link


def _make_readable(folder: Path) -> None:
    """Make a folder that others can read, whatever our umask is. What is there stays as it is."""
    if folder.is_dir():
        return
    _make_readable(folder.parent)
    folder.mkdir(exist_ok=True)
    folder.chmod(_FOLDER_MODE)


@contextlib.contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InstallFailed(
            f"cannot install into {path}: {error.strerror}",
            hint="Agents are installed into execution.agents_folder; choose one that you may write "
            "to: agor config set execution.agents_folder /path/to/folder",
        ) from error
