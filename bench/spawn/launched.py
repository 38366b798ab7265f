"""Executors from a launcher, asked for as the daemon asks: one packet with descriptors each."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.results import BenchError
from bench.spawn.processes import descendants

UNDER_TEST = Path(__file__).with_name("under_test.py")
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'

ANSWER_SECONDS = 30
#: Seconds in which a keeper that was forked ahead comes to rest.
SETTLE = 0.2
#: Should the bench be killed, they end by themselves.
ORPHAN_MS = 60_000
LIMITS = {
    "orphan_timeout_ms": ORPHAN_MS,
    "unused_timeout_ms": ORPHAN_MS,
    "max_line": 1 << 24,
    "outbox_bytes": 1 << 24,
}


@dataclass(frozen=True)
class Spec:
    """How a launcher is started."""

    #: Python and the script that it runs: not everybody can read those of this folder.
    command: tuple[str, ...] = (sys.executable, "-P", str(UNDER_TEST))
    #: A user id to run as, for those who may change it.
    user: int | None = None


@dataclass(frozen=True)
class Executor:
    """One that has answered its first `ping`; the connection is left open."""

    pid: int
    keeper: int
    ready_ms: float
    path: Path
    connection: socket.socket
    family: dict[str, Any]


class Launcher:
    """A launcher that is up."""

    def __init__(self, pid: int, control: socket.socket, place: Path) -> None:
        self.pid = pid
        self._control = control
        self._place = place
        self._numbers = itertools.count()

    def call(self, method: str, params: Mapping[str, Any]) -> Any:
        self._ask(method, params, [])
        return self._hear()

    def _ask(self, method: str, params: Mapping[str, Any], fds: list[int]) -> None:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        socket.send_fds(self._control, [json.dumps(request).encode()], fds)

    def _hear(self) -> Any:
        answer = json.loads(self._control.recv(1 << 20))
        if "error" in answer:
            raise BenchError(f"the launcher refused: {answer['error']}")
        return answer["result"]

    def spawn(self) -> Executor:
        """Have one started; the clock runs from before its socket is bound to its answer.

        As the pool does, it connects while the launcher is at work: the socket listens already.
        """
        name = f"e{next(self._numbers)}"
        path = self._place / f"{name}.sock"
        log = os.open(self._place / f"{name}.log", os.O_RDWR | os.O_CREAT)
        report = os.open(self._place / f"{name}.report", os.O_RDWR | os.O_CREAT)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(ANSWER_SECONDS)
        with socket.socket(socket.AF_UNIX) as listener:
            began = time.perf_counter()
            listener.bind(str(path))
            listener.listen(8)
            fds = [listener.fileno(), log, report]
            self._ask("spawn", {"executor_id": name, **LIMITS}, fds)
            connection.connect(str(path))
            connection.sendall(PING)
            if not connection.recv(4096):
                raise BenchError("an executor hung up before it answered")
            took = time.perf_counter() - began
        family = self._hear()
        os.close(log)
        os.close(report)
        pid, keeper = family["executor"]["pid"], family["keeper"]["pid"]
        return Executor(pid, keeper, took * 1000, path, connection, family)

    def end(self, executor: Executor) -> None:
        """End an executor, and come to rest with a keeper forked ahead."""
        executor.connection.close()
        self.call("signal_family", {"family": executor.family, "signal": signal.SIGKILL})
        self.settle()

    def settle(self) -> None:
        self.call("hello", {})
        time.sleep(SETTLE)


@contextmanager
def launcher(spec: Spec, directory: Path, name: str) -> Iterator[Launcher]:
    """Start a launcher, yield once it answers, and end it and all below it on the way out."""
    place = directory / name
    place.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(place / "control"))
        listener.listen(8)
        with (place / "log").open("wb") as errors:
            process = subprocess.Popen(
                _command(spec),
                stdin=listener.fileno(),
                stdout=errors,
                stderr=errors,
                cwd="/",
                start_new_session=True,
                user=spec.user,
            )
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
        control.settimeout(ANSWER_SECONDS)
        try:
            control.connect(str(place / "control"))
            up = Launcher(process.pid, control, place)
            try:
                up.call("hello", {})
                up.settle()
            except (OSError, ValueError) as error:
                said = (place / "log").read_text(encoding="utf-8", errors="replace")[-1000:]
                raise BenchError(f"{name} did not start: {error}\n{said}".rstrip()) from error
            yield up
        finally:
            _end(process)


def _command(spec: Spec) -> list[str]:
    options = ["--launcher", "--preload", "--orphan-timeout-ms", str(ORPHAN_MS)]
    return [*spec.command, *options]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop all of the tree first, so that nothing can come up or get away between."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in reversed(descendants(process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    process.wait()
