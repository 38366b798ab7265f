"""Looking at processes through /proc: who is left, how much memory, which open files."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from agor import linux

#: Seconds for anything that should come at once; generous, because the machine may be busy.
PATIENCE = 20.0
_NAME = "AGOR_TEST_MARK"


class Mark:
    """A mark in the environment, inherited by whatever is started with it, however detached."""

    def __init__(self) -> None:
        self._value = uuid.uuid4().hex

    @property
    def env(self) -> dict[str, str]:
        """This process's environment with the mark."""
        return self.on(dict(os.environ))

    def on(self, environment: dict[str, str]) -> dict[str, str]:
        """An environment with the mark."""
        return environment | {_NAME: self._value}

    def bearers(self) -> set[int]:
        """Find the living processes that carry the mark."""
        return {process.pid for process in linux.marked(_NAME, self._value)}

    def wait_gone(self, *but: int) -> None:
        """Wait until nobody else carries it."""
        wait_nobody(lambda: self.bearers().difference(but))

    def end_all(self) -> None:
        """Kill whoever still carries it."""
        for pid in self.bearers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def describe(pid: int) -> str:
    """Name a process by its id and its command line."""
    return f"{pid} {_read(pid, 'cmdline').replace(bytes(1), b' ').decode(errors='replace')}"


def memory(pid: int, member: str = "VmRSS") -> int:
    """Tell how many bytes of memory a process has; with VmHWM, how many it ever had."""
    for line in _read(pid, "status").decode().splitlines():
        name, _, value = line.partition(":")
        if name == member:
            return int(value.split()[0]) * 1024
    raise AssertionError(f"no {member} of process {pid}")


def open_files(pid: int) -> int:
    """Count the open descriptors of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def command_line_and_environment(pid: int) -> bytes:
    """Give what everybody with the same user can see of a process."""
    with contextlib.suppress(OSError):
        return _read(pid, "cmdline") + linux.environment(pid)
    return b""


def inhabitants(folder: Path) -> set[int]:
    """Find the living processes that were told of a folder, or of one below it."""
    path = str(folder).encode()
    return {
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and path in command_line_and_environment(int(entry.name))
    }


def wait_nobody(find: Callable[[], set[int]]) -> None:
    """Wait until no such process is found; the kernel gives no event for that."""
    deadline = time.monotonic() + PATIENCE
    while left := find():
        assert time.monotonic() < deadline, f"still there: {[describe(pid) for pid in left]}"
        time.sleep(0.01)


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
