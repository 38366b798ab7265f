"""One server process: started, awaited, pinned to a core, and stopped whatever happens."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.install import BENCH
from bench.results import BenchError
from bench.wire.servers import Server

ROOT = BENCH.parent

READY_SECONDS = 20
STOP_SECONDS = 3


@dataclass(frozen=True)
class Running:
    """A server that accepts connections."""

    server: Server
    socket: Path
    log: Path
    pid: int

    def last_words(self) -> str:
        """The end of what it printed, to explain a failure."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-1000:].strip()


@contextmanager
def running(server: Server, directory: Path) -> Iterator[Running]:
    """Start the server, yield once it accepts a connection, and end it on the way out."""
    log = directory / f"{server.name}.log"
    path = directory / f"{server.name}.sock"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*server.command, str(path)],
            cwd=ROOT,
            env={**os.environ, **server.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        started = Running(server, path, log, process.pid)
        _wait_until_ready(process, started)
        yield started
    finally:
        _stop(process)


@contextmanager
def pinned(process: Running, core: int) -> Iterator[None]:
    """Keep a whole process on one core, with the helper threads that its runtime has."""
    before = os.sched_getaffinity(process.pid)
    _pin(process.pid, {core})
    try:
        yield
    finally:
        _pin(process.pid, before)


def _pin(pid: int, cores: set[int]) -> None:
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)


def _wait_until_ready(process: subprocess.Popen[bytes], started: Running) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not _accepts(started.socket):
        if process.poll() is not None:
            raise BenchError(f"{started.server.name} ended at once: {started.last_words()}")
        if time.monotonic() > deadline:
            raise BenchError(f"{started.server.name} does not listen after {READY_SECONDS} s")
        time.sleep(0.02)


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
        try:
            attempt.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
    return True


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
