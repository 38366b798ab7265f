"""Our side: a real daemon on an empty home, and prompts through its interface."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agor.home import Home
from bench.agents.direct import KEY
from bench.agents.follower import PATIENCE, Follower
from bench.agents.subjects import PROGRAMS, Subject
from bench.results import BenchError

READY_SECONDS = 60
STOP_SECONDS = 30
ENDED = frozenset({"completed", "failed", "stopped", "timed_out"})


class Daemon:
    """A daemon that serves."""

    def __init__(self, home: Home, pid: int, url: str, log: Path) -> None:
        self.pid = pid
        self._log = log
        self.port = int(url.rpartition(":")[2])
        self.token = home.read_token() or ""
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._connection.close()

    def last_words(self) -> str:
        """The end of what it printed, to explain a failure."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-2000:].strip()

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and read its answer."""
        self.send(method, path, None if body is None else json.dumps(body).encode())
        return self.answer()

    def send(self, method: str, path: str, body: bytes | None) -> None:
        """Send a request; its answer may be read later."""
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        self._connection.request(method, path, body, headers)

    def answer(self) -> dict[str, Any]:
        """Read the answer to what was sent."""
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise BenchError(f"the daemon answered with {answer.status}: {text[:500]!r}")
        told: dict[str, Any] = json.loads(text) if text else {}
        return told


class Conversation:
    """A session, and its feed."""

    def __init__(self, daemon: Daemon, subject: Subject, workspace: Path) -> None:
        form = {
            "agentic_tool": subject.agentic_tool,
            "model": subject.model,
            "permission_mode": subject.permission_mode,
            "workspace": str(workspace),
        }
        made = daemon.ask("POST", "/sessions", form)
        self.session_id = str(made["session_id"])
        self._daemon = daemon
        self._follower = Follower(daemon.port, daemon.token, self.session_id)

    def prompt(self, text: str) -> dict[str, float]:
        """Have a prompt answered; tells how long that took."""
        body = json.dumps({"prompt": text}).encode()
        texts: set[str] = set()
        first = total = 0.0
        began = time.perf_counter()
        self._daemon.send("POST", f"/sessions/{self.session_id}/prompt", body)
        while True:
            event = self._follower.event()
            kind, data = event["type"], event["data"]
            if kind == "block_delta" and not first and data["block_id"] in texts:
                first = time.perf_counter()
            elif kind == "block_start" and data["kind"] == "text":
                texts.add(data["block_id"])
            elif kind == "task_result":
                total = time.perf_counter()
                if data["status"] != "completed":
                    raise BenchError(f"the task ended badly: {data}")
            elif kind == "task" and data["status"] in ENDED:
                break
        self._daemon.answer()
        if not first or not total:
            raise BenchError(f"the task ended without a word: {data}")
        return {"first_ms": (first - began) * 1000, "total_ms": (total - began) * 1000}

    def close(self) -> None:
        """Stop following; the session's executor ends with the session."""
        self._follower.close()
        self._daemon.ask("DELETE", f"/sessions/{self.session_id}")


@contextmanager
def daemon(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Daemon]:
    """Start a daemon as a person would, with a home of its own for itself and for agents.

    Settings are given as the variables that stand for them.
    """
    home, person, log = Home(folder / "agor"), folder / "home", folder / "log"
    person.mkdir(parents=True)
    environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environment |= {"HOME": str(person), "AGOR_HOME": str(home.folder)}
    environment |= {"AGOR_DAEMON__DRAIN_ON_STOP": "true"}
    environment |= {"AGOR_EXECUTION__AGENTS_FOLDER": str(PROGRAMS), **(settings or {})}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agor.cli.main", "daemon", "run", "--port", "0"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        started = Daemon(home, process.pid, _wait_until_ready(home, process, log), log)
        yield started
        started.close()
    finally:
        _stop(process)


def keep_key(daemon: Daemon, subject: Subject, model_url: str) -> None:
    """Have the daemon keep the agent's key, as a person would."""
    key = {"value": KEY, "base_url": f"{model_url}{subject.base_path}"}
    daemon.ask("PUT", f"/credentials/{subject.credential}", key)


def _wait_until_ready(home: Home, process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        running = home.running()
        if running is not None and running.description is not None:
            return running.description.url
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise BenchError(f"the daemon does not serve: {log.read_text()[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
