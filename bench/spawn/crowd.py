"""Many executors at once, each streaming: how long until all are up, CPU, memory, latency.

The reader is the same for all: it takes the time that each event carries and acknowledges now and
then, as a daemon does. Its own CPU is not counted.
"""

import json
import re
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.results import BenchError
from bench.spawn.cold import Cold, Starter
from bench.spawn.launched import Spec, launcher
from bench.spawn.processes import cpu_seconds, descendants, memory_of_all

EVERY_MS = 20
#: Seconds of streaming before the measured ones, and between two acknowledgements.
WARM_UP = 1.0
ACK_EVERY = 0.5

_MADE = re.compile(rb"@(\d+)@")
_SEQUENCE = re.compile(rb'"sequence":(\d+)')


@dataclass(frozen=True)
class Crowd:
    """Executors that are up, as sockets to connect to, and all processes that they cost."""

    sockets: list[Path]
    ready_s: float
    pids: list[int]


@contextmanager
def launched_crowd(spec: Spec, directory: Path, name: str, size: int) -> Iterator[Crowd]:
    with launcher(spec, directory, name) as up:
        began = time.perf_counter()
        executors = [up.spawn() for _ in range(size)]
        ready = time.perf_counter() - began
        for executor in executors:
            executor.connection.close()
        yield Crowd([executor.path for executor in executors], ready, descendants(up.pid))


@contextmanager
def cold_crowd(starter: Starter, cold: Cold, size: int) -> Iterator[Crowd]:
    with ExitStack() as stack:
        began = time.perf_counter()
        starting = []
        for number in range(size):
            starting.append(starter.begin(cold, f"crowd-{number}"))
            stack.callback(starting[-1].end)
        started = [one.wait() for one in starting]
        ready = time.perf_counter() - began
        pids = [pid for one in started for pid in descendants(one.pid)]
        yield Crowd([one.socket for one in started], ready, pids)


def stream(crowd: Crowd, seconds: float) -> dict[str, float]:
    """Have all of them stream, and read along."""
    readers = [_Reader(path, number) for number, path in enumerate(crowd.sockets)]
    try:
        _read(readers, WARM_UP, lambda _: None)
        latencies: list[int] = []
        before, began = cpu_seconds(crowd.pids), time.perf_counter()
        _read(readers, seconds, latencies.extend)
        took = time.perf_counter() - began
        spent = cpu_seconds(crowd.pids) - before
        together = memory_of_all(crowd.pids)
    finally:
        for reader in readers:
            reader.socket.close()
    size = len(crowd.sockets)
    wanted = size * took * 1000 / EVERY_MS
    if len(latencies) < wanted / 2:
        raise BenchError(f"{size} executors told {len(latencies)} events, not {wanted:.0f}")
    latencies.sort()
    return {
        "crowd_ready_s": crowd.ready_s,
        "crowd_cpu_percent": spent / took * 100,
        "crowd_cpu_us_per_event": spent * 1e6 / len(latencies),
        "crowd_events_per_s": len(latencies) / took,
        "crowd_p50_ms": latencies[len(latencies) // 2] / 1e6,
        "crowd_p99_ms": latencies[len(latencies) * 99 // 100] / 1e6,
        "crowd_pss_mb": together.pss / size,
    }


class _Reader:
    """One connection that asked for events."""

    def __init__(self, path: Path, number: int) -> None:
        self.task = f"task-{number}"
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self._acknowledged = time.monotonic()
        self._say(
            {
                "id": 1,
                "method": "execute_prompt",
                "params": {
                    "session_token": "token", "session_id": "session", "task_id": self.task,
                    "agentic_tool": "metronome", "prompt": str(EVERY_MS), "cwd": "/",
                },
            }
        )  # fmt: skip

    def _say(self, message: dict[str, object]) -> None:
        self.socket.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def read(self) -> list[int]:
        """The nanoseconds that each event which is there now has been under way."""
        chunk = self.socket.recv(1 << 18)
        now = time.monotonic_ns()
        if not chunk:
            raise BenchError("an executor hung up while it streamed")
        if time.monotonic() - self._acknowledged > ACK_EVERY:
            self._acknowledged = time.monotonic()
            last = int(_SEQUENCE.findall(chunk)[-1])
            params = {"task_id": self.task, "sequence": last}
            self._say({"method": "ack_messages", "params": params})
        return [now - int(made) for made in _MADE.findall(chunk)]


def _read(readers: list[_Reader], seconds: float, take: Callable[[list[int]], None]) -> None:
    by_fd = {reader.socket.fileno(): reader for reader in readers}
    with select.epoll() as poll:
        for fd in by_fd:
            poll.register(fd, select.EPOLLIN)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for fd, _ in poll.poll(left):
                take(by_fd[fd].read())
