"""What Gemini CLI does not tell over ACP: that its provider fails, and that it tries again.

It tries ten times and waits longer each time, minutes in all, while a person sees nothing. Its
debug log says so; it is written into a pipe that is read here, so nothing of it is kept. Each
attempt is told, and after some of them the turn ends with the provider's reason.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import Struct

from agor.agents.acp.failures import kind_of
from agor.agents.provider import provider_error
from agor.errors import ProviderFailed, RateLimited
from agor.protocol.validation import UNREADABLE

#: The variable that names the log.
VARIABLE = "GEMINI_DEBUG_LOG_FILE"
#: So many attempts at one answer of the model, then it is over.
MOST_ATTEMPTS = 3
_CHUNK = 64 * 1024
_FAILED = re.compile(
    rb"Attempt (?P<attempt>\d{1,3}) failed(?: with status (?P<status>\d{3}))?[.:] ?(?P<words>.*)"
)


class Attempt(Struct, frozen=True):
    """A call of the provider that failed."""

    number: int
    status: int | None
    words: str

    def error(self, credential: str) -> ProviderFailed:
        """Tell what it means if it stays so."""
        # Without a status it is a limit that the provider named itself.
        kind = kind_of(self.words, self.status or 0) or (self.status or RateLimited)
        return provider_error(kind, self.words, credential)


class RetryLog:
    """The pipe that the debug log goes into."""

    NAME: ClassVar = "debug.pipe"

    def __init__(self, folder: Path, on_attempt: Callable[[Attempt], None]) -> None:
        path = folder / self.NAME
        self._on_attempt = on_attempt
        self._rest = b""
        self._loop = asyncio.get_running_loop()
        os.mkfifo(path, 0o600)
        # Open for writing, too: so it has no end, whichever program comes and goes.
        self._fd: int | None = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._loop.add_reader(self._fd, self._read)

    def close(self) -> None:
        """Read no more."""
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None

    def _read(self) -> None:
        assert self._fd is not None
        try:
            data = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_CHUNK:]
        for line in lines:
            if b"Attempt " in line and (attempt := read_attempt(line)) is not None:
                self._on_attempt(attempt)


def read_attempt(line: bytes) -> Attempt | None:
    """Read a line of the log, if it tells of a failed attempt."""
    found = _FAILED.search(line)
    if found is None:
        return None
    status = None if found["status"] is None else int(found["status"])
    return Attempt(int(found["attempt"]), status, _words(found["words"]))


def _words(told: bytes) -> str:
    """Find the provider's own words."""
    _, brace, body = told.partition(b"{")
    try:
        error = msgspec.json.decode(brace + body)["error"]
        return f"{error['message']} ({error['status']})"
    except (*UNREADABLE, KeyError, TypeError):
        return told.partition(b" Retrying")[0].decode(errors="replace")
