"""What an environment offers: run commands, read, write, list and watch files, end.

Everything else (starting executors, sessions, transcripts) is built on this and is the same for
every kind. `agor.testing.certification` checks a kind against what is promised here.

Paths are those inside the environment, in the way of Unix. A relative one is below the workspace;
`~` and variables mean nothing. The workspace is where work happens, not a wall: `..`, an absolute
path or a link may lead out of it, and what may be reached there is what the environment's Unix
user may reach. That user's plain permissions are the boundary, and every operation has exactly
them, never those of agor's own process.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from agor.environments.commands import MAX_OUTPUT, Completed, RunningCommand, collect
from agor.errors import BadInput

#: Bytes of the largest file that `read_file` returns. Larger ones are for `exec`.
MAX_FILE = 256 * 1024 * 1024
#: Entries that `list_files` returns at most, and that a watch looks after.
MAX_ENTRIES = 200_000

FileKind = Literal["file", "folder", "link", "other"]
ChangeKind = Literal["added", "changed", "deleted"]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class BasePaths:
    """Where things are inside the environment."""

    home: str
    workspace: str
    #: For temporary files; private to the environment's user, and there for as long as it runs.
    runtime: str


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry of a folder. A link is told as a link, whatever it leads to."""

    path: str  # absolute
    kind: FileKind
    size: int  # in bytes
    modified: float  # seconds since 1970


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened to a watched path."""

    kind: ChangeKind
    path: str  # absolute


#: Called on the event loop with what changed; it must not block.
OnChanges = Callable[[Sequence[Change]], None]


class Watch(ABC):
    """A watch that is under way."""

    @abstractmethod
    async def unwatch(self) -> None:
        """Stop. The callback is not called after this returns. Stopping twice is fine."""


class EnvironmentPrimitive(ABC):
    """The low-level operations of one environment.

    After `terminate`, all but `get_id`, `is_running` and `poll` raise `EnvironmentEnded`.
    """

    @abstractmethod
    async def get_id(self) -> str:
        """Return a name that no other environment has."""

    @abstractmethod
    async def get_base_paths(self) -> BasePaths:
        """Say where things are."""

    @abstractmethod
    async def exec(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> RunningCommand:
        """Start a command, as `async with await environment.exec(…) as running`.

        It gets a plain environment and `env` on top, starts in `cwd` (else in the workspace), and
        is ended with its group when `timeout` seconds have passed.
        """

    async def run(
        self,
        command: Sequence[str],
        input: bytes = b"",  # noqa: A002 - the name subprocess has for it
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> Completed:
        """Run a command to its end and collect what it wrote.

        If either of its outputs passes `max_output` bytes, it is ended and this fails.
        """
        async with await self.exec(command, env=env, cwd=cwd, timeout=timeout) as running:
            return await collect(running, input, max_output)

    @abstractmethod
    async def read_file(self, path: str) -> bytes:
        """Read a file whole, through links. Raises `NoSuchFile` if there is none."""

    @abstractmethod
    async def write_file(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Write a file as a whole: nobody ever sees half of it.

        Missing parents are made. Without a `mode` a file keeps the one it has, and a new one gets
        0644. A link at the path itself is replaced, not followed; links on the way are followed.
        It is not forced to the disk: power loss may undo it.
        """

    async def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write several files, in the order given; each as a whole, not all of them at once."""
        for path, data in files.items():
            await self.write_file(path, data)

    @abstractmethod
    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        """List a folder, sorted by path; with `recursive`, all below it that may be read.

        Links below it are not followed. Files that are just being written are left out.
        """

    @abstractmethod
    async def watch(self, path: str, callback: OnChanges) -> Watch:
        """Report what is added, changed or deleted at this path and anywhere below it.

        What happens to one path in quick succession may be told as one change. Links are not
        followed, and folders that may not be read are left out. A new folder is told with all
        that is in it. If the path itself is deleted, that is the last thing told.
        """

    @abstractmethod
    async def is_running(self) -> bool:
        """Tell whether it takes commands."""

    @abstractmethod
    async def poll(self) -> int | None:
        """Give None while it runs, and its exit code once it has ended; 0 if we ended it."""

    @abstractmethod
    async def terminate(self) -> None:
        """End everything that was started in it. Terminating twice is fine."""


def absolute(workspace: str, path: str) -> str:
    """Put a path below the workspace, unless it is absolute; `..` is left to the system."""
    if not _can_be_passed(path):
        raise BadInput(f"{path!r} cannot be a path: it has a zero byte or half a character in it")
    return str(PurePosixPath(workspace, path))


def check_command(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Refuse what some kind of environment could not pass on as it is."""
    if isinstance(command, str) or not command:
        raise BadInput(f"a command is a list of words, and {command!r} is not")
    if not command[0] or command[0].startswith("-"):
        raise BadInput(f"{command[0]!r} cannot be the name of a program")
    for name in env:
        if not _VARIABLE.fullmatch(name):
            raise BadInput(
                f"{name!r} cannot be the name of an environment variable",
                hint="Use letters, digits and _ only, and no digit in front.",
            )
    # The values are not shown: they may be secrets.
    if not all(_can_be_passed(word) for word in (*command, *env.values())):
        raise BadInput(
            f"the command {command[0]!r} or its environment has a zero byte or half a character "
            "in it"
        )


def _can_be_passed(text: str) -> bool:
    try:
        return b"\0" not in text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
