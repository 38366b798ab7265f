"""Processes that are started cold: one command each, through the starter written in C."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.results import BenchError

STOP_SECONDS = 5


@dataclass(frozen=True)
class Cold:
    """A command that serves the listening socket which is its standard input."""

    command: tuple[str, ...]
    folder: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Started:
    """A process that has answered its first `ping`, and how long that took."""

    pid: int
    ready_ms: float
    socket: Path


class Starter:
    """The program that starts others and holds the clock."""

    def __init__(self, program: str, directory: Path) -> None:
        self._program = program
        self._directory = directory

    def begin(self, cold: Cold, name: str) -> "Starting":
        """Start a command without waiting for its answer."""
        path = self._directory / f"{name}.sock"
        log = self._directory / f"{name}.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [self._program, str(path), *cold.command],
                cwd=cold.folder,
                env={**os.environ, **cold.environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        return Starting(process, path, log, name)

    @contextmanager
    def started(self, cold: Cold, name: str) -> Iterator[Started]:
        """Start a command, yield once it has answered, and end it on the way out."""
        starting = self.begin(cold, name)
        try:
            yield starting.wait()
        finally:
            starting.end()


class Starting:
    """A command on its way up."""

    def __init__(self, process: subprocess.Popen[bytes], path: Path, log: Path, name: str) -> None:
        self._process = process
        self._path = path
        self._log = log
        self._name = name

    def wait(self) -> Started:
        """Wait for its first answer."""
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        if len(words) != 2:
            said = self._log.read_text(encoding="utf-8", errors="replace")[-1000:].strip()
            raise BenchError(f"{self._name} did not start: {said}")
        return Started(int(words[0]), float(words[1]), self._path)

    def end(self) -> None:
        """End it: the starter kills it when our end of its standard input is closed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
