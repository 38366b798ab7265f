"""A real `agor-executor` process: started, listened to, signalled, and ended with its test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any, Protocol

from tests import nursery
from tests.integration.processes import PATIENCE, Mark

COMMAND = [sys.executable, "-m", "agor.executor.main"]


class Process(Protocol):
    """A process, as `subprocess` shows it."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...
    def kill(self) -> None: ...


class ExecutorProcess:
    """One executor. Its log is read all the time, so that it never has to wait for a reader."""

    def __init__(self, process: Process, mark: Mark, path: Path) -> None:
        #: Where it can be reached; of no meaning with --stdio.
        self.path = path
        self.mark = mark
        self.process = process
        assert self.process.stderr is not None
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._log_ended = False
        self._reader = threading.Thread(target=self._read_log, args=(self.process.stderr,))
        self._reader.start()

    # ── its log ──────────────────────────────────────────────────────────────────────────────

    @property
    def log(self) -> str:
        """Everything it has logged so far."""
        return "\n".join(self._lines)

    @property
    def log_entries(self) -> list[dict[str, Any]]:
        """The log of an executor that writes JSON lines."""
        return [json.loads(line) for line in self._lines]

    def wait_logged(self, text: str) -> str:
        """Wait for a line of its log that contains this text, and return it."""
        deadline = time.monotonic() + PATIENCE
        seen = 0
        with self._news:
            while True:
                for line in self._lines[seen:]:
                    if text in line:
                        return line
                seen = len(self._lines)
                assert not self._log_ended, f"it ended without logging {text!r}:\n{self.log}"
                in_time = self._news.wait(deadline - time.monotonic())
                assert in_time, f"{text!r} was not logged in time:\n{self.log}"

    async def logged(self, text: str) -> str:
        """Wait for a line of its log while the test's own side goes on."""
        return await asyncio.to_thread(self.wait_logged, text)

    def _read_log(self, stream: IO[bytes]) -> None:
        for line in stream:
            with self._news:
                self._lines.append(line.decode().rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._log_ended = True
            self._news.notify_all()

    # ── its end ──────────────────────────────────────────────────────────────────────────────

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def offspring(self) -> set[int]:
        """Find the living processes that it started, or that those started."""
        return self.mark.bearers() - {self.pid}

    def wait_childless(self) -> None:
        """Wait until there are none."""
        self.mark.wait_gone(self.pid)

    def wait_ended(self) -> int:
        """Wait for its end, and return its exit code, or minus the signal that killed it."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    async def ended(self) -> int:
        """Wait for its end while the test's own side goes on."""
        return await asyncio.to_thread(self.wait_ended)

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def clean_up(self) -> None:
        """End it and whatever it left behind, and close what is open."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self.mark.end_all()
        self._reader.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def start_command(
    *arguments: str,
    path: Path,
    command: list[str] | None = None,
    stdin: int | None = subprocess.DEVNULL,
    pass_fds: tuple[int, ...] = (),
) -> ExecutorProcess:
    """Start the command with these arguments."""
    mark = Mark()
    process = subprocess.Popen(
        [*(command or COMMAND), *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=pass_fds,
        env=mark.env,
    )
    return ExecutorProcess(process, mark, path)


def start_listening(*arguments: str, path: Path) -> ExecutorProcess:
    """Start an executor on a socket that listens already, as the daemon does it.

    Whoever connects need not wait for it: the first answer says that it is there.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(16)
        fd = listener.fileno()
        flags = ("--listen-fd", str(fd), *arguments)
        return start_command(*flags, path=path, pass_fds=(fd,))


def start_warm(*, path: Path, env: dict[str, str]) -> ExecutorProcess:
    """Start one on a socket that listens already, with all that agents need imported before."""
    mark = Mark()
    errors, log = os.pipe()
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
        Path(os.devnull).open("rb") as nothing,
    ):
        listener.bind(str(path))
        listener.listen(16)
        process = nursery.Forked(
            "agor-executor", ["--listen-fd", str(nursery.FIRST_FD)],
            env=mark.on(env), fds=(nothing.fileno(), log, log, listener.fileno()),
        )  # fmt: skip
    os.close(log)
    process.stderr = os.fdopen(errors, "rb")
    return ExecutorProcess(process, mark, path)


def start_binding(*arguments: str, path: Path) -> ExecutorProcess:
    """Start an executor that binds the path itself; `wait_logged("listening")` says when it has."""
    return start_command("--socket", str(path), *arguments, path=path)
