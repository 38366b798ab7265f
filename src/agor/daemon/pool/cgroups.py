"""Cgroups: in which hierarchies this daemon may make them, and the one of each executor.

A hierarchy is a mounted cgroup file system: v2 is one, v1 has several. In each of them:

    <the cgroup the daemon is in>/agor-<home>/executor-<id>

Below the daemon's own cgroup and never beside it: what bounds the daemon still bounds all of it.
A v2 hierarchy without controllers is used too: writing to `cgroup.kill` ends everybody in it.

Who is to be inside writes `0` into the descriptors of `fds()`. Linux ≥ 5.16 judges that by who
opened them, so a process of another user can do it. On v1 the opener must be root, or of the same
user; on v2 it must be able to write the `cgroup.procs` of the nearest cgroup above both places.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import structlog

from agor.errors import BadInput
from agor.protocol.limits import MEBIBYTE, ResourceLimits

log = structlog.get_logger("agor.pool")

#: Limit → the controller that enforces it.
CONTROLLERS = {"memory": "memory", "processes": "pids", "cpus": "cpu"}

#: The file by which one sees that a controller works in a cgroup.
_SIGNS = {
    (2, "memory"): "memory.max", (2, "pids"): "pids.max", (2, "cpu"): "cpu.max",
    (1, "memory"): "memory.limit_in_bytes", (1, "pids"): "pids.max", (1, "cpu"): "cpu.cfs_quota_us",
}  # fmt: skip
_WANTED = frozenset(CONTROLLERS.values())
_FOLDER = "executor-"
#: Where the daemon itself goes on v2: no cgroup but the root has both processes and controllers.
_LEAF = "agor-daemon"
_EXECUTOR_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
#: Microseconds over which a share of the processors is counted: the kernel's default.
_PERIOD = 100_000
#: How far down, and through how many cgroups, folders of an earlier daemon are looked for.
_DEPTH, _MOST = 10, 20_000
#: Memory is asked for in pieces of up to 2 MiB, so the peak may stay below the limit by some.
_HUGE_PAGES = 4 * MEBIBYTE
_ATTEMPTS = 5
#: Seconds between looks at a cgroup that is emptying: v1 gives no event.
_PAUSE = 0.005


@dataclass(frozen=True, slots=True)
class Mount:
    """A cgroup file system, with the place of this process in it."""

    version: int
    #: Of v1. On v2 each folder has its own list.
    controllers: frozenset[str]
    top: Path
    own: Path


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A place where cgroups can be made, with the controllers that work in them."""

    version: int
    base: Path
    controllers: frozenset[str]
    #: Folders of the same daemon from when it ran in other cgroups.
    older: tuple[Path, ...] = ()

    def make(self, name: str) -> Path:
        """Make a cgroup. Raises OSError."""
        folder = self.base / name
        for _ in range(_ATTEMPTS):
            self.base.mkdir(exist_ok=True)
            if self.version == 2:
                _hand_down(self.base, self.controllers)
            # Somebody who only probes may remove the empty base between the two.
            with contextlib.suppress(FileNotFoundError):
                folder.mkdir()
                return folder
        raise FileNotFoundError(errno.ENOENT, "it vanishes again and again", str(self.base))

    def folders(self) -> Iterator[Path]:
        """All cgroups of executors, also those of an earlier daemon."""
        for base in (self.base, *self.older):
            yield from base.glob(f"{_FOLDER}*/")


@dataclass(frozen=True, slots=True)
class Found:
    """What can be used, and in sentences what cannot."""

    hierarchies: tuple[Hierarchy, ...]
    why_not: tuple[str, ...]


def read_mounts(mountinfo: str, membership: str) -> list[Mount]:
    """Read /proc/self/mountinfo and /proc/self/cgroup; v2 comes first."""
    own: dict[str, PurePosixPath] = {}
    for line in membership.splitlines():
        _, names, path = line.split(":", 2)
        own.update(dict.fromkeys(names.split(","), PurePosixPath(path)))
    mounts: list[Mount] = []
    for line in mountinfo.splitlines():
        place, _, file_system = line.partition(" - ")
        kind, _, options = file_system.split(" ", 2)
        version = {"cgroup2": 2, "cgroup": 1}.get(kind)
        controllers = frozenset(options.split(",")) & _WANTED
        if version is None or (version == 1 and not controllers):
            continue
        root, top = (part.replace("\\040", " ") for part in place.split(" ")[3:5])
        path_here = own.get("" if version == 2 else min(controllers))
        # What lies above the root of our cgroup namespace, or of the mount, cannot be reached.
        if path_here and ".." not in path_here.parts and path_here.is_relative_to(root):
            below = path_here.relative_to(root)
            known = controllers if version == 1 else frozenset[str]()
            mounts.append(Mount(version, known, Path(top), Path(top) / below))
    return sorted(mounts, key=lambda mount: -mount.version)


def find(name: str, mounts: Sequence[Mount]) -> Found:
    """Try each mount by making a cgroup in it; nothing is left of that."""
    hierarchies: list[Hierarchy] = []
    why_not: list[str] = []
    for mount in mounts:
        # The same hierarchy may be mounted twice.
        held = frozenset[str]().union(*(one.controllers for one in hierarchies))
        if mount.version == 1 and mount.controllers <= held:
            continue
        if mount.version == 2 and any(one.version == 2 for one in hierarchies):
            continue
        try:
            hierarchies.append(_try_out(mount, name, why_not))
        except OSError as error:
            why_not.append(f"no cgroup can be made in {mount.own}: {error.strerror}")
    return Found(tuple(hierarchies), tuple(why_not))


def _try_out(mount: Mount, name: str, why_not: list[str]) -> Hierarchy:
    parent, offered, refused = mount.own, mount.controllers, dict[str, str]()
    if mount.version == 2:
        # Moved aside by an earlier probe, or by systemd (DelegateSubgroup=).
        handed_over = not _delegated(parent) and _delegated(parent.parent)
        if parent.name == _LEAF or (parent != mount.top and handed_over):
            parent = parent.parent
        offered = _WANTED & set(_read(parent / "cgroup.controllers").split())
        if offered:
            _step_aside(parent)
            refused = _hand_down(parent, offered)
    older = tuple(place for place in _places(mount.top, name) if place != parent / name)
    hierarchy = Hierarchy(mount.version, parent / name, offered - refused.keys(), older)
    for left in hierarchy.base.glob("probe-*/"):
        if not Path("/proc", left.name.removeprefix("probe-")).exists():
            _remove_if_empty(left)
    folder = hierarchy.make(f"probe-{os.getpid()}")
    try:
        usable = frozenset(one for one in offered if (folder / _SIGNS[mount.version, one]).exists())
    finally:
        folder.rmdir()
        _remove_if_empty(hierarchy.base)
    if missing := sorted(_WANTED - usable if mount.version == 2 else offered - usable):
        because = "; ".join(sorted(set(refused.values())))
        why_not.append(
            f"cgroup v{mount.version} in {parent} gives us no {', '.join(missing)} controller"
            + (f" ({because})" if because else "")
        )
    return replace(hierarchy, controllers=usable)


def _step_aside(parent: Path) -> None:
    """Move this process out of a v2 cgroup if it is alone there, so that it can hand down."""
    if (parent / "cgroup.type").exists() and _pids(parent) == {os.getpid()}:
        with contextlib.suppress(OSError):
            (parent / _LEAF).mkdir(exist_ok=True)
            (parent / _LEAF / "cgroup.procs").write_text("0")


def _hand_down(folder: Path, controllers: frozenset[str]) -> dict[str, str]:
    """Let the cgroups below a v2 folder use these controllers; say which it refuses, and why."""
    wanted = controllers.difference(_read(folder / "cgroup.subtree_control").split())
    inside = len(_pids(folder))
    # Only the root, which alone has no type, may hand down with processes of its own. Elsewhere
    # the kernel refuses some controllers and makes a threaded cgroup, of no use to us, for others.
    if wanted and inside and (folder / "cgroup.type").exists():
        why = f"other processes are in it too ({inside} in all); a service with Delegate=yes helps"
        return dict.fromkeys(wanted, why)
    refused: dict[str, str] = {}
    for controller in sorted(wanted):
        try:
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError as error:
            refused[controller] = error.strerror or str(error)
    return refused


def _delegated(folder: Path) -> bool:
    """Whether systemd gave this v2 cgroup to whoever runs in it (Delegate=yes)."""
    with contextlib.suppress(OSError):
        return os.getxattr(folder, "user.delegate") == b"1"
    return False


def _places(top: Path, name: str) -> Iterator[Path]:
    """Find the folders of this daemon, wherever it ran before; not those of other users."""
    for folder, below, _ in itertools.islice(os.walk(top), _MOST):
        path = Path(folder)
        with contextlib.suppress(FileNotFoundError):
            if path.name == name and path.stat().st_uid == os.geteuid():
                yield path
        if path.name == name or len(path.relative_to(top).parts) >= _DEPTH:
            below.clear()


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
    return sorted({folder.name.removeprefix(_FOLDER) for folder in folders})


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
        return sorted({pid for folder in self._with_nested() for pid in _pids(folder)})

    def populated(self) -> bool:
        """Whether any process is in it, also one that our pid namespace has no number for."""
        events = (_read(folder / "cgroup.events") for folder in self.folders)
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
            _remove_if_empty(folder.parent)
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
                    inside = re.split(r"[/\n]", _read(Path(f"/proc/{pid}/cgroup")))
                    if _folder_name(self.executor_id) in inside:
                        signal.pidfd_send_signal(fd, signal.SIGKILL)
                finally:
                    os.close(fd)

    def _with_nested(self) -> list[Path]:
        """Its folders and what was made below, deepest first."""
        return [Path(path) for top in self.folders for path, _, _ in os.walk(top, topdown=False)]

    def _value(self, name: str) -> str:
        return next((text for one in self.folders if (text := _read(one / name).strip())), "")

    def _count(self, name: str, counter: str = "oom_kill") -> int:
        texts = (_read(folder / name) for folder in self._with_nested())
        lines = (line.split() for text in texts for line in text.splitlines())
        return sum(int(words[1]) for words in lines if words[0] == counter)


def _folder_name(executor_id: str) -> str:
    if not _EXECUTOR_ID.fullmatch(executor_id):
        raise BadInput(
            f"{executor_id!r} cannot name a cgroup.",
            hint="An executor id has letters, digits, dots, dashes and underscores, at most 128.",
        )
    return f"{_FOLDER}{executor_id}"


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


def _read(path: Path) -> str:
    """Read a file of the kernel; what is not there, or no longer, is empty."""
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


def _pids(folder: Path) -> set[int]:
    # 0 stands for a process that our pid namespace has no number for.
    return {int(pid) for pid in _read(folder / "cgroup.procs").split()} - {0}


def _remove_if_empty(base: Path) -> None:
    with contextlib.suppress(OSError):
        base.rmdir()
