"""Where the master key comes from: a file of ours, a variable, or a command.

Only the file can be changed by us. What a variable or a command gives is somebody else's to keep,
so a rotation there begins with them. The key itself is in no message, whatever goes wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import stat
from collections.abc import MutableMapping
from pathlib import Path
from typing import Protocol

from agor import private
from agor.config.keys import CredentialsConfig
from agor.daemon.services.credentials.master_key import MOST_TEXT, MasterKey, parse
from agor.errors import BadConfig, BadInput, MasterKeyUnusable
from agor.home import Home

#: Holds the master key, if `credentials.master_key` says so. No child of ours ever has it.
VARIABLE = "AGOR_MASTER_KEY"
#: Seconds in which a command that was killed is gone; one that fled its group may hold the pipe.
_LAST_WORDS = 1.0


class KeySource(Protocol):
    """A place that a master key comes from."""

    #: Names it, in the middle of a sentence.
    name: str
    #: Whether we can make new versions there.
    ours: bool

    async def load(self) -> MasterKey | None:
        """Give what is there; None if nothing ever was. Raises `MasterKeyUnusable`."""

    async def save(self, key: MasterKey) -> None:
        """Make it durable, in the place of what was there."""


class KeyFile:
    """A file that only we can read."""

    ours = True

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    async def load(self) -> MasterKey | None:
        """Read it; one that others could have read or put there is refused."""
        return await asyncio.to_thread(self._load)

    async def save(self, key: MasterKey) -> None:
        """Replace it, whole or not at all."""
        try:
            await asyncio.to_thread(private.write, self._path, key.spell().encode())
        except BadInput as error:
            raise MasterKeyUnusable(f"the master key cannot be kept: {error.message}") from error

    def _load(self) -> MasterKey | None:
        self._check_folder()
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            why = "it is a link" if self._path.is_symlink() else error.strerror
            raise MasterKeyUnusable(f"cannot read {self._path}: {why}") from error
        try:
            self._check(os.fstat(fd))
            text = os.read(fd, MOST_TEXT + 1)
        finally:
            os.close(fd)
        return parse(_decode(text, self.name), self.name)

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise MasterKeyUnusable(f"{self._path} is not a file")
        if found.st_uid != os.geteuid():
            raise MasterKeyUnusable(
                f"{self._path} belongs to another user",
                hint="It must belong to the user that the daemon runs as.",
            )
        if stat.S_IMODE(found.st_mode) & private.MINE_ALONE:
            raise MasterKeyUnusable(
                f"{self._path} could be read by others",
                hint=f"chmod 600 {self._path}; and if others may have read it, then: "
                "agor credential rotate",
            )

    def _check_folder(self) -> None:
        folder = self._path.parent
        try:
            found = folder.stat()
        except OSError as error:
            raise MasterKeyUnusable(f"cannot look into {folder}: {error.strerror}") from error
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & private.MINE_TO_WRITE:
            raise MasterKeyUnusable(
                f"others could put another file in the place of {self._path}",
                hint=f"It must be in a folder that only you can change: chmod 700 {folder}",
            )


class KeyVariable:
    """An environment variable, as it was when the daemon started."""

    name = f"the environment variable {VARIABLE}"
    ours = False

    def __init__(self, text: str | None) -> None:
        self._text = text

    async def load(self) -> MasterKey | None:
        """Read what it held."""
        if not self._text:
            raise MasterKeyUnusable(
                f"{self.name} is not set, and credentials.master_key says that it has the key",
                hint="Start the daemon with it, or: agor config set credentials.master_key file",
            )
        return parse(self._text, self.name)

    async def save(self, key: MasterKey) -> None:
        """Refuse: it is not ours."""
        raise _not_ours(self.name, key)


class KeyCommand:
    """A command that prints the key: of a secret store, for example."""

    name = "what credentials.key_command prints"
    ours = False

    def __init__(self, command: str, seconds: float) -> None:
        self._command = shlex.split(command)
        self._seconds = seconds

    async def load(self) -> MasterKey | None:
        """Run it, within its time."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                # It may say the key there, too, and nobody here needs to know what it says.
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise self._failed(f"cannot be started: {error.strerror}") from None
        try:
            async with asyncio.timeout(self._seconds):
                text = await _read(process)
                code = await process.wait()
        except TimeoutError:
            raise self._failed(f"did not end within {self._seconds:g} s") from None
        finally:
            await _end(process)
        if len(text) > MOST_TEXT:
            raise self._failed("prints too much to be a master key")
        if code != 0:
            raise self._failed(f"failed (exit code {code})")
        return parse(_decode(text, self.name), self.name)

    async def save(self, key: MasterKey) -> None:
        """Refuse: it is not ours."""
        raise _not_ours(self.name, key)

    def _failed(self, why: str) -> MasterKeyUnusable:
        return MasterKeyUnusable(
            f"credentials.key_command {why}",
            hint="Run it by hand, as the user that the daemon runs as, to see what it says.",
        )


def take_variable(env: MutableMapping[str, str]) -> str | None:
    """Take the master key out of the environment, so that nothing we start inherits it."""
    return env.pop(VARIABLE, None)


def source_of(config: CredentialsConfig, home: Home, variable: str | None) -> KeySource:
    """Choose the source that the configuration names."""
    if config.master_key == "file":
        return KeyFile(home.path(config.key_file))
    if config.master_key == "environment":
        return KeyVariable(variable)
    if config.key_command is None:
        raise BadConfig(
            "credentials.master_key is command, and credentials.key_command is not set",
            hint="For example: agor config set credentials.key_command 'pass show agor'",
        )
    return KeyCommand(config.key_command, config.key_timeout_ms / 1000)


async def _read(process: asyncio.subprocess.Process) -> bytes:
    """Read what it prints, and a little more than may be."""
    assert process.stdout is not None
    text = b""
    while len(text) <= MOST_TEXT and (piece := await process.stdout.read(MOST_TEXT)):
        text += piece
    if len(text) > MOST_TEXT:
        _kill(process)
    return text


async def _end(process: asyncio.subprocess.Process) -> None:
    """End it, with all that it started, and read what is left: only then is its pipe closed."""
    _kill(process)
    await process.wait()
    assert process.stdout is not None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LAST_WORDS):
            while await process.stdout.read(MOST_TEXT):
                pass


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _decode(text: bytes, where: str) -> str:
    if len(text) > MOST_TEXT or not text.isascii():
        raise MasterKeyUnusable(f"{where} is no master key")
    return text.decode("ascii")


def _not_ours(name: str, key: MasterKey) -> MasterKeyUnusable:
    return MasterKeyUnusable(f"version {key.newest} of the master key cannot be kept in {name}")
