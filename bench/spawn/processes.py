"""What Linux tells of processes: their memory, their CPU time, who descends from whom."""

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: Seconds for a full collection that was asked for by a signal.
COLLECTION = 0.5


@dataclass(frozen=True)
class Memory:
    """Megabytes: what is its own, and with its share of what it has in common with others."""

    private: float
    pss: float

    def __add__(self, other: "Memory") -> "Memory":
        return Memory(self.private + other.private, self.pss + other.pss)


def memory(pid: int) -> Memory:
    private = pss = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
        name, kilobytes = line.split()[:2]
        if name in ("Private_Clean:", "Private_Dirty:"):
            private += int(kilobytes)
        elif name == "Pss:":
            pss += int(kilobytes)
    return Memory(private / 1024, pss / 1024)


def memory_of_all(pids: Iterable[int]) -> Memory:
    return sum((memory(pid) for pid in pids), Memory(0, 0))


def collect(pid: int) -> None:
    """Have it run a full collection."""
    os.kill(pid, signal.SIGUSR1)
    time.sleep(COLLECTION)


def descendants(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for parent in found:
        for thread in _threads(parent):
            try:
                text = Path(f"/proc/{parent}/task/{thread}/children").read_text(encoding="ascii")
            except OSError:
                continue
            found += map(int, text.split())
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """Time on a CPU of all threads, to the nanosecond; /proc/PID/stat counts in hundredths."""
    nanoseconds = 0
    for pid in pids:
        for thread in _threads(pid):
            try:
                text = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text(encoding="ascii")
            except OSError:
                continue
            nanoseconds += int(text.split()[0])
    return nanoseconds / 1e9


def _threads(pid: int) -> list[str]:
    try:
        return [entry.name for entry in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []
