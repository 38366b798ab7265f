"""A server process on a folder and a port of its own: started, asked, ended whatever happens."""

import http.client
import json
import os
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.install import BENCH
from bench.results import BenchError

ROOT = BENCH.parent

READY_SECONDS = 30
STOP_SECONDS = 15

NEW_SESSION = json.dumps({"agentic_tool": "scripted", "workspace": "/tmp"})
#: With this begins the text of a delta that the load generator made.
MARK = ':"@'
NEW_PROMPT = json.dumps({"prompt": "go"})


@dataclass(frozen=True)
class Running:
    """A server that accepts connections."""

    folder: Path
    port: int
    pid: int

    @property
    def token(self) -> str:
        """What opens its interface; a peer has none."""
        file = self.folder / "home" / "token"
        return file.read_text(encoding="ascii").strip() if file.exists() else "none"

    def last_words(self) -> str:
        """The end of what it printed, to explain a failure."""
        text = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
        return text[-2000:].strip()

    def open_sessions(self, count: int) -> list[str]:
        """Make sessions, and give their ids."""
        return [str(self._post("/sessions", NEW_SESSION)["session_id"]) for _ in range(count)]

    def prompt(self, session_id: str) -> None:
        """Have a session's executor begin."""
        self._post(f"/sessions/{session_id}/prompt", NEW_PROMPT)

    def _post(self, path: str, body: str) -> dict[str, object]:
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READY_SECONDS)
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status not in (201, 202):
            raise BenchError(f"POST {path} was answered with {answer.status}: {text[:500]!r}")
        told: dict[str, object] = json.loads(text)
        return told

    def stored_deltas(self) -> int:
        """Count the load generator's deltas in its database. It must have ended."""
        with closing(sqlite3.connect(self.folder / "events.db")) as database:
            asked = f"SELECT COUNT(*) FROM events WHERE INSTR(CAST(body AS TEXT), '{MARK}') > 0"
            return int(database.execute(asked).fetchone()[0])


@contextmanager
def running(
    command: tuple[str, ...], environment: Mapping[str, str], folder: Path
) -> Iterator[Running]:
    """Start a server, yield once it accepts a connection, and end it on the way out."""
    port = _free_port()
    with (folder / "log").open("wb") as output:
        process = subprocess.Popen(
            [*command, str(folder), str(port)],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    started = Running(folder, port, process.pid)
    try:
        _wait_until_ready(process, started)
        yield started
    finally:
        _stop(process)


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def _wait_until_ready(process: subprocess.Popen[bytes], started: Running) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not _accepts(started.port):
        if process.poll() is not None:
            raise BenchError(f"a server ended at once: {started.last_words()}")
        if time.monotonic() > deadline:
            raise BenchError(f"a server does not listen after {READY_SECONDS} s")
        time.sleep(0.02)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
