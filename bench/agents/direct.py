"""The direct side: an agent's driver in a process of its own, with a home of its own."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agor.catalogue import AGENTS_FOLDER
from bench.agents.subjects import PROGRAMS, Subject
from bench.results import BenchError

#: Seconds for one prompt, or for the driver's start; machines may be busy.
PATIENCE = 120
STOP_SECONDS = 10
KEY = "sk-of-the-bench"


class Driver:
    """A driver that takes prompts."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    def prompt(self, text: str) -> dict[str, float]:
        """Have a prompt answered; tells how long that took."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(text).encode() + b"\n")
        self._process.stdin.flush()
        figures: dict[str, float] = self.read()
        return figures

    def read(self) -> Any:
        """Read what it says."""
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        line = self._process.stdout.readline() if readable else b""
        if not line:
            raise BenchError(f"an agent's driver says nothing: {self._log.read_text()[-2000:]}")
        return json.loads(line)


@contextmanager
def driver(subject: Subject, folder: Path, workspace: Path, base_url: str) -> Iterator[Driver]:
    """Start the driver of an agent. The agent itself starts with the first prompt."""
    home, log = folder / "home", folder / "log"
    home.mkdir(parents=True)
    environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", subject.driver, workspace, base_url, KEY, subject.model],
            env={**environment, "HOME": str(home), AGENTS_FOLDER: str(PROGRAMS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    try:
        started = Driver(process, log)
        started.read()
        yield started
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
