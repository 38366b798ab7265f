"""Finds the cgroup hierarchies in which this daemon may make cgroups, and says why not in others.

A hierarchy is a mounted cgroup file system: v2 is one, v1 has several. In each of them:

    <the cgroup the daemon is in>/agor-<home>/executor-<id>

Below the daemon's own cgroup and never beside it: what bounds the daemon still bounds all of it.
A v2 hierarchy without controllers is used too: writing to `cgroup.kill` ends everybody in it.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

#: Limit → the controller that enforces it.
CONTROLLERS = {"memory": "memory", "processes": "pids", "cpus": "cpu"}
#: How the folder of an executor's cgroup begins.
FOLDER = "executor-"

#: The file by which one sees that a controller works in a cgroup.
_SIGNS = {
    (2, "memory"): "memory.max", (2, "pids"): "pids.max", (2, "cpu"): "cpu.max",
    (1, "memory"): "memory.limit_in_bytes", (1, "pids"): "pids.max", (1, "cpu"): "cpu.cfs_quota_us",
}  # fmt: skip
_WANTED = frozenset(CONTROLLERS.values())
#: Where the daemon itself goes on v2: no cgroup but the root has both processes and controllers.
_LEAF = "agor-daemon"
#: How far down, and through how many cgroups, folders of an earlier daemon are looked for.
_DEPTH, _MOST = 10, 20_000
_ATTEMPTS = 5


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
            yield from base.glob(f"{FOLDER}*/")


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
        offered = _WANTED & set(read_text(parent / "cgroup.controllers").split())
        if offered:
            _step_aside(parent)
            refused = _hand_down(parent, offered)
    older = tuple(place for place in _places(mount.top, name) if place != parent / name)
    hierarchy = Hierarchy(mount.version, parent / name, offered - refused.keys(), older)
    for left in hierarchy.base.glob("probe-*/"):
        if not Path("/proc", left.name.removeprefix("probe-")).exists():
            remove_if_empty(left)
    folder = hierarchy.make(f"probe-{os.getpid()}")
    try:
        usable = frozenset(one for one in offered if (folder / _SIGNS[mount.version, one]).exists())
    finally:
        folder.rmdir()
        remove_if_empty(hierarchy.base)
    if missing := sorted(_WANTED - usable if mount.version == 2 else offered - usable):
        because = "; ".join(sorted(set(refused.values())))
        why_not.append(
            f"cgroup v{mount.version} in {parent} gives us no {', '.join(missing)} controller"
            + (f" ({because})" if because else "")
        )
    return replace(hierarchy, controllers=usable)


def _step_aside(parent: Path) -> None:
    """Move this process out of a v2 cgroup if it is alone there, so that it can hand down."""
    if (parent / "cgroup.type").exists() and pids(parent) == {os.getpid()}:
        with contextlib.suppress(OSError):
            (parent / _LEAF).mkdir(exist_ok=True)
            (parent / _LEAF / "cgroup.procs").write_text("0")


def _hand_down(folder: Path, controllers: frozenset[str]) -> dict[str, str]:
    """Let the cgroups below a v2 folder use these controllers; say which it refuses, and why."""
    wanted = controllers.difference(read_text(folder / "cgroup.subtree_control").split())
    inside = len(pids(folder))
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
    # Thousands of folders on some machines: those of others are passed by as they are, strings.
    deepest = str(top).count("/") + _DEPTH
    for folder, below, _ in itertools.islice(os.walk(top), _MOST):
        if folder.endswith(f"/{name}"):
            below.clear()
            with contextlib.suppress(FileNotFoundError):
                if (path := Path(folder)).stat().st_uid == os.geteuid():
                    yield path
        elif folder.count("/") >= deepest:
            below.clear()


def read_text(path: Path) -> str:
    """Read a file of the kernel; what is not there, or no longer, is empty."""
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


def pids(folder: Path) -> set[int]:
    """List who is in a cgroup."""
    # 0 stands for a process that our pid namespace has no number for.
    return {int(pid) for pid in read_text(folder / "cgroup.procs").split()} - {0}


def remove_if_empty(base: Path) -> None:
    """Remove a cgroup in which nobody is."""
    with contextlib.suppress(OSError):
        base.rmdir()
