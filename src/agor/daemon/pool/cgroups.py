"""The cgroup of each executor: made with its limits, killed as a whole, removed.

Who is to be inside writes `0` into the descriptors of `fds()`. Linux ≥ 5.16 judges that by who
opened them, so a process of another user can do it. On v1 the opener must be root, or of the same
user; on v2 it must be able to write the `cgroup.procs` of the nearest cgroup above both places.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from agor.daemon.pool.hierarchies import (
    CONTROLLERS,
    FOLDER,
    Hierarchy,
    pids,
    read_text,
    remove_if_empty,
)
from agor.errors import BadInput
from agor.linux import shortage
from agor.protocol.limits import MEBIBYTE, ResourceLimits

log = structlog.get_logger("agor.pool")

_EXECUTOR_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
#: Microseconds over which a share of the processors is counted: the kernel's default.
_PERIOD = 100_000
#: Memory is asked for in pieces of up to 2 MiB, so the peak may stay below the limit by some.
_HUGE_PAGES = 4 * MEBIBYTE
#: Seconds between looks at a cgroup that is emptying: v1 gives no event.
_PAUSE = 0.005


def settings(limits: ResourceLimits, version: int) -> dict[str, list[tuple[str, str]]]:
    """Say what to write for each limit asked; a file with a `?` need not exist.

    Swap counts as memory. The kernel wants it set after the memory, in v1.
    """
    quota = max(1000, round((limits.cpus or 0) * _PERIOD))
    files = {
        "processes": [("pids.max", str(limits.processes))],
        "memory": [
            ("memory.max", str(limits.memory)),
            ("memory.swap.max?", "0"),
            ("memory.oom.group?", "1"),
        ],
        "cpus": [("cpu.max", f"{quota} {_PERIOD}")],
    }
    if version == 1:
        files["memory"] = [
            ("memory.limit_in_bytes", str(limits.memory)),
            ("memory.memsw.limit_in_bytes?", str(limits.memory)),
        ]
        files["cpus"] = [("cpu.cfs_period_us", str(_PERIOD)), ("cpu.cfs_quota_us", str(quota))]
    return {name: files[name] for name in limits.asked if name in files}


def leftovers(hierarchies: Sequence[Hierarchy]) -> list[str]:
    """List the executors that have a cgroup, also one made by an earlier daemon of this home."""
    folders = (folder for hierarchy in hierarchies for folder in hierarchy.folders())
    return sorted({folder.name.removeprefix(FOLDER) for folder in folders})


class Cgroup:
    """The cgroup of one executor: one folder in each hierarchy."""

    def __init__(self, executor_id: str, folders: Sequence[Path]) -> None:
        self.executor_id = executor_id
        #: One in each hierarchy.
        self.folders = tuple(folders)

    @classmethod
    def open(cls, executor_id: str, hierarchies: Sequence[Hierarchy]) -> Cgroup | None:
        """Find the cgroup that was made for an executor, perhaps by an earlier daemon."""
        name = _folder_name(executor_id)
        places = [one for each in hierarchies for one in each.folders() if one.name == name]
        return cls(executor_id, places) if places else None

    @classmethod
    def create(
        cls, executor_id: str, limits: ResourceLimits, hierarchies: Sequence[Hierarchy]
    ) -> tuple[Cgroup, dict[str, str]]:
        """Make it; also give the limits it does not enforce, each with the reason."""
        if cls.open(executor_id, hierarchies):
            raise BadInput(
                f"There is a cgroup of executor {executor_id} already.",
                hint="Kill and remove it first, or take another id.",
            )
        folders: list[Path] = []
        missing = dict.fromkeys(CONTROLLERS, "no cgroup controller for it")
        for hierarchy in hierarchies:
            served = {name for name, one in CONTROLLERS.items() if one in hierarchy.controllers}
            try:
                folders.append(hierarchy.make(_folder_name(executor_id)))
            except OSError as error:
                missing |= dict.fromkeys(served, f"{hierarchy.base}: {error.strerror}")
                continue
            wanted = settings(limits, hierarchy.version)
            for name in served:
                refusal = _set(folders[-1], wanted.get(name, []))
                missing.pop(name) if refusal is None else missing.update({name: refusal})
        return cls(executor_id, folders), {k: v for k, v in missing.items() if k in limits.asked}

    def fds(self) -> list[int]:
        """Open the way in, one descriptor for each hierarchy; the caller closes them."""
        with contextlib.ExitStack() as undo:
            opened: list[int] = []
            for folder in self.folders:
                fd = os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
                undo.callback(os.close, fd)
                opened.append(fd)
            undo.pop_all()
        return opened

    def members(self) -> list[int]:
        """The processes in it, also in cgroups that they made below it."""
        return sorted({pid for folder in self._with_nested() for pid in pids(folder)})

    def populated(self) -> bool:
        """Whether any process is in it, also one that our pid namespace has no number for.

        It counts as populated if it cannot be looked at now, for want of files for example.
        """
        try:
            for folder in self.folders:
                os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError as error:
            if shortage(error) is not None:
                return True
        events = (read_text(folder / "cgroup.events") for folder in self.folders)
        return bool(self.members()) or any("populated 1" in text for text in events)

    def memory_limit(self) -> int | None:
        """The bytes that it may use, as the kernel has it."""
        texts = (self._value("memory.max"), self._value("memory.limit_in_bytes"))
        return next((int(text) for text in texts if text.isdigit()), None)

    def out_of_memory(self) -> bool:
        """Whether the kernel killed one of its processes for want of memory, here or at large."""
        return bool(self._count("memory.events") or self._count("memory.oom_control"))

    def reached_its_limit(self) -> bool:
        """Whether its own memory limit was in the way, and not only that of the machine."""
        limit = self.memory_limit()
        # v1 counts failures, but newer kernels only for those who watch: the peak tells as well.
        failures = (self._value("memory.failcnt"), self._value("memory.memsw.failcnt"))
        peaks = (
            self._value("memory.max_usage_in_bytes"),
            self._value("memory.memsw.max_usage_in_bytes"),
        )
        return limit is not None and (
            self._count("memory.events", "oom") > 0
            or any(int(failed or 0) for failed in failures)
            or any(int(peak or 0) > limit - _HUGE_PAGES for peak in peaks)
        )

    async def kill(self, timeout: float = 5.0) -> int:
        """Kill all that is in it, again and again until it is empty. Gives how many are left."""
        deadline = time.monotonic() + timeout
        while True:
            self._kill_once()
            if await self.wait_empty(0.1):
                return 0
            if time.monotonic() > deadline:
                left = self.members()
                log.error("executor_not_killed", executor=self.executor_id, processes=left)
                return max(1, len(left))

    async def wait_empty(self, timeout: float) -> bool:
        """Wait until nobody is in it; False if it takes longer."""
        deadline = time.monotonic() + timeout
        while self.populated():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_PAUSE)
        return True

    async def remove(self, timeout: float = 5.0) -> bool:
        """Remove it. The kernel may call it busy for a while after the last process is gone."""
        deadline = time.monotonic() + timeout
        while (refusal := self.discard()) is not None:
            if time.monotonic() > deadline:
                log.error(
                    "cgroup_not_removed", executor=self.executor_id, folder=refusal.filename,
                    why=refusal.strerror, processes=self.members(),
                )  # fmt: skip
                return False
            await asyncio.sleep(_PAUSE)
        return True

    def discard(self) -> OSError | None:
        """Remove it at once if the kernel lets us; else give what it says."""
        for folder in self._with_nested():
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError as error:
                return error
        for folder in self.folders:
            remove_if_empty(folder.parent)
        return None

    def _kill_once(self) -> None:
        for folder in self.folders:
            with contextlib.suppress(OSError):
                if (folder / "cgroup.kill").exists():
                    (folder / "cgroup.kill").write_text("1")
        for pid in self.members():
            # A pid may be somebody else's by now; what a pidfd was opened for stays the same.
            with contextlib.suppress(ProcessLookupError, PermissionError, FileNotFoundError):
                fd = os.pidfd_open(pid)
                try:
                    inside = re.split(r"[/\n]", read_text(Path(f"/proc/{pid}/cgroup")))
                    if _folder_name(self.executor_id) in inside:
                        signal.pidfd_send_signal(fd, signal.SIGKILL)
                finally:
                    os.close(fd)

    def _with_nested(self) -> list[Path]:
        """Its folders and what was made below, deepest first."""
        return [Path(path) for top in self.folders for path, _, _ in os.walk(top, topdown=False)]

    def _value(self, name: str) -> str:
        return next((text for one in self.folders if (text := read_text(one / name).strip())), "")

    def _count(self, name: str, counter: str = "oom_kill") -> int:
        texts = (read_text(folder / name) for folder in self._with_nested())
        lines = (line.split() for text in texts for line in text.splitlines())
        return sum(int(words[1]) for words in lines if words[0] == counter)


def _folder_name(executor_id: str) -> str:
    if not _EXECUTOR_ID.fullmatch(executor_id):
        raise BadInput(
            f"{executor_id!r} cannot name a cgroup.",
            hint="An executor id has letters, digits, dots, dashes and underscores, at most 128.",
        )
    return f"{FOLDER}{executor_id}"


def _set(folder: Path, values: list[tuple[str, str]]) -> str | None:
    """Write settings; say which one the kernel refuses, and why."""
    for name, value in values:
        path = folder / name.removesuffix("?")
        if name.endswith("?") and not path.exists():
            continue
        try:
            path.write_text(value)
        except OSError as error:
            return f"{path} does not take {value}: {error.strerror}"
    return None
