"""What only Linux has: who is whose child, ends of whole trees, orphans that come back.

A process is named by its pid and the time it started, since pids are used again.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from agor.errors import ResourcesExhausted
from agor.protocol.launching import Process

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)

_PROC = Path("/proc")
#: Rounds in which processes that go on forking are looked for before what was found is killed.
_ROUNDS = 50
#: Looks at a process that is just becoming another program, and seconds between two of them.
_LOOKS = 200
_LOOK_AGAIN = 0.001
#: The flag of the kernel's own threads.
_KERNEL_THREAD = 0x00200000
#: More bytes than the line of a process has: 52 numbers and a name.
_LONGEST_STAT = 4096


#: Errors that mean: not now, the machine or the user has used up something.
_SHORTAGES = frozenset(
    {
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
        errno.ENOSPC,
    }
)


def shortage(error: OSError) -> ResourcesExhausted | None:
    """Return the error to raise if this one means that something has run out for now."""
    return None if error.errno not in _SHORTAGES else run_out(error.errno)


def run_out(number: int) -> ResourcesExhausted:
    """Make the error for something that has run out, by its number in `errno`."""
    return ResourcesExhausted(
        f"no executor can be started now: {os.strerror(number)}",
        hint="It is tried again until it succeeds. Free files, processes, memory or disk space.",
    )


def process_of(pid: int) -> Process | None:
    """Name a living process by its pid. An error means that it is not known whether it lives."""
    found = _read(pid)
    return None if found is None else Process(pid, found[2])


def age_of(process: Process) -> float:
    """Return the seconds since a process was started, whatever the time of day was then."""
    ticks = os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - process.started / ticks)


def is_alive(process: Process) -> bool:
    """Tell whether it still runs; one that only waits to be reaped does not.

    An error means that this is not known, for want of files for example.
    """
    found = _read(process.pid)
    return found is not None and found[0] and found[2] == process.started


def send(process: Process, number: int) -> bool:
    """Send a signal to this process and nobody else. False if it is gone or not ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # The descriptor holds on to the process, so nobody can take its number between.
        fd = os.pidfd_open(process.pid)
        try:
            if is_alive(process):
                signal.pidfd_send_signal(fd, number)
                return True
        finally:
            os.close(fd)
    return False


def become_subreaper() -> None:
    """Have the orphans below this process come back to it, instead of to init."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def forbid_dumps() -> None:
    """Let nobody but root look into this process: no core dump, no debugger, no environment.

    It is for this program alone; what it starts is as open as ever.
    """
    if _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def family(roots: Iterable[Process]) -> list[Process]:
    """List the living among these processes and all that descend from them, roots first."""
    below: dict[int, list[Process]] = {}
    for process, parent in _everybody():
        below.setdefault(parent, []).append(process)
    found: dict[Process, None] = {}
    waiting = [root for root in roots if is_alive(root)]
    while waiting:
        process = waiting.pop(0)
        if process not in found:
            found[process] = None
            waiting += below.get(process.pid, ())
    return list(found)


def children(pid: int) -> list[Process]:
    """List the living children of a process."""
    return [process for process, parent in _everybody() if parent == pid]


def session(number: int) -> list[Process]:
    """List the living processes of a session, which has the pid of its leader."""
    found = []
    for pid in _pids():
        # One call of the system, and no file, for all those that are somebody else's.
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(pid) == number and (read := _read(pid)) is not None and read[0]:
                found.append(Process(pid, read[2]))
    return found


def marked(name: str, value: str) -> list[Process]:
    """List our user's processes that were started with this in their environment."""
    mark = f"{name}={value}".encode()
    found = []
    for process, _ in _everybody():
        with contextlib.suppress(OSError):
            if mark in environment(process.pid).split(b"\0"):
                found.append(process)
    return found


def environment(pid: int) -> bytes:
    """Read what a process was started with.

    While a process becomes another program, its environment reads as empty: who looked once would
    take it for a stranger, and one that does nothing else could never be found.
    """
    path = f"/proc/{pid}/environ"
    for _ in range(_LOOKS):
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a file for each process
            found = file.read()
        if found or not _is_becoming_another(pid):
            return found
        time.sleep(_LOOK_AGAIN)
    return b""


def kill_family(roots: Iterable[Process], spare: Iterable[Process] = ()) -> set[Process]:
    """Kill these and all that descend from them, but for those to spare; return who was killed."""
    roots, spared = list(roots), set(spare)
    # A stopped process still has children that were not there a moment ago.
    return _kill(lambda stopped: [p for p in family([*roots, *stopped]) if p not in spared])


def kill_session(number: int) -> None:
    """Kill all of a session, whichever process groups they are in."""
    _kill(lambda _: session(number))


def _kill(find: Callable[[Iterable[Process]], list[Process]]) -> set[Process]:
    """Kill those that are found, told who is stopped already.

    First everybody is stopped, again and again until nobody new is found: what forks faster than
    it can be listed would else outrun the killing.
    """
    stopped: dict[Process, None] = {}
    for _ in range(_ROUNDS):
        fresh = [process for process in find(stopped) if process not in stopped]
        if not fresh:
            break
        for process in fresh:
            stopped[process] = None
            send(process, signal.SIGSTOP)
    # Children first: the kernel sets a stopped group going again whose parents have died.
    return {process for process in reversed(stopped) if send(process, signal.SIGKILL)}


def _everybody() -> Iterator[tuple[Process, int]]:
    """List all living processes with the pid of their parent."""
    for pid in _pids():
        found = _read(pid)
        if found is not None and found[0]:
            yield Process(pid, found[2]), found[1]


def _pids() -> Iterator[int]:
    for name in os.listdir(_PROC):  # noqa: PTH208 - thousands of names, and only strings wanted
        if name.isdecimal():
            yield int(name)


def _is_becoming_another(pid: int) -> bool:
    """Tell whether a process whose environment was read as empty may have one all the same."""
    fields = _stat(pid)
    if fields is None or fields[0] in (b"Z", b"X") or int(fields[6]) & _KERNEL_THREAD:
        return False
    # The end of its code is the last thing that the kernel tells of a new program: only then does
    # an environment that begins where it ends mean that there is none.
    in_place, begin, end = int(fields[24]) > 0, int(fields[47]), int(fields[48])
    return not in_place or begin < end


def _read(pid: int) -> tuple[bool, int, int] | None:
    """Read whether a process runs, its parent and its start."""
    fields = _stat(pid)
    if fields is None:
        return None
    # A zombie with more than one thread is no zombie: only its first thread has ended.
    runs = fields[0] != b"Z" or int(fields[17]) > 1
    return runs, int(fields[1]), int(fields[19])


def _stat(pid: int) -> list[bytes] | None:
    """Read the numbers that the kernel has of a process, from its state on."""
    try:
        # Three calls of the system: this is the hot spot of a scan.
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            text = os.read(fd, _LONGEST_STAT)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in _SHORTAGES:
            # Nothing can be opened now: that says nothing of the process.
            raise
        return None
    # The name is in brackets and may hold anything, brackets and blanks too.
    return text[text.rindex(b")") + 2 :].split()
