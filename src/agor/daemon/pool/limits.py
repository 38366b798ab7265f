"""The limits of executors: what can enforce them here, and what came of those asked for.

A limit that nothing here can enforce is never dropped in silence: `Prepared.achieved` says so, and
the log does. `Backend.summary` says it beforehand, for `agor doctor`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

import msgspec
import structlog

from agor.daemon.pool.cgroups import Cgroup, leftovers
from agor.daemon.pool.hierarchies import CONTROLLERS, Found, Hierarchy, find, read_mounts
from agor.errors import AgorError
from agor.protocol.limits import MEBIBYTE, RLIMITS, Kind, ResourceLimits, rlimits

log = structlog.get_logger("agor.pool")

#: What an rlimit does, for those who asked for more.
_RLIMIT_NAMES = {
    resource.RLIMIT_AS: "RLIMIT_AS, for each process and not for all together",
    resource.RLIMIT_NPROC: "RLIMIT_NPROC, counted over all processes of its user",
    resource.RLIMIT_NOFILE: "RLIMIT_NOFILE, for each process",
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the start of an executor needs, and what will bound it."""

    #: The executor writes `0` into each before it does anything else. Close them once sent.
    fds: tuple[int, ...]
    #: (resource, value) pairs that it then sets itself, as soft and hard limits.
    rlimits: tuple[tuple[int, int], ...]
    #: Limit asked for → what enforces it, or "not enforced: …".
    achieved: dict[str, str]
    cgroup: Cgroup | None

    def close(self) -> None:
        """Close the descriptors; the cgroup stays."""
        for fd in self.fds:
            with contextlib.suppress(OSError):
                os.close(fd)


@dataclass(frozen=True, slots=True)
class Backend:
    """The best way to bound executors that this machine gives us."""

    name: Kind
    #: What it can and cannot do, and why nothing better is there.
    summary: str
    hierarchies: tuple[Hierarchy, ...]

    def prepare(
        self, executor_id: str, limits: ResourceLimits, *, uid: int | None = None
    ) -> Prepared:
        """Make the cgroup of an executor that is about to start, as user `uid` (else as we are)."""
        cgroup, missing = None, dict.fromkeys(CONTROLLERS, "there is no cgroup to do it")
        # Going into a cgroup can take milliseconds: into none that has nothing to do.
        needed = {CONTROLLERS[name] for name in limits.asked if name in CONTROLLERS}
        useful = [
            each for each in self.hierarchies if each.version == 2 or each.controllers & needed
        ]
        if useful:
            cgroup, missing = Cgroup.create(executor_id, limits, useful)
        # What a cgroup does, an rlimit would only do worse.
        done = {name: None for name in CONTROLLERS if name not in missing}
        pairs = rlimits(
            msgspec.structs.replace(limits, **done), kind="rlimits", hard=_hard_limits()
        )
        root = (os.geteuid() if uid is None else uid) == 0
        achieved = {
            name: self._how(name, getattr(limits, name), missing, dict(pairs), root=root)
            for name in limits.asked
        }
        for name, how in achieved.items():
            if how.startswith("not enforced"):
                log.warning("limit_not_enforced", executor=executor_id, limit=name, why=how)
        return Prepared(_way_in(cgroup) if cgroup else (), tuple(pairs), achieved, cgroup)

    def open(self, executor_id: str) -> Cgroup | None:
        """Find the cgroup of an executor, also one that an earlier daemon of this home made."""
        return Cgroup.open(executor_id, self.hierarchies)

    def leftovers(self) -> list[str]:
        """List the executors that have a cgroup, also from before this daemon started."""
        return leftovers(self.hierarchies)

    def _how(
        self, name: str, asked: float, missing: dict[str, str], pairs: dict[int, int], *, root: bool
    ) -> str:
        if name == "wall_time":
            return "the pool's clock"
        controller = CONTROLLERS.get(name)
        if controller and name not in missing:
            version = next(one.version for one in self.hierarchies if controller in one.controllers)
            return f"cgroup v{version}, controller {controller}"
        if name == "cpus":
            return f"not enforced: {missing[name]}, and rlimits know no share of the processors"
        if name == "processes" and root:
            return f"not enforced: {missing[name]}, and RLIMIT_NPROC does not bind root"
        value = pairs[RLIMITS[name]]
        lower = f", at {value}: the hard limit in force allows no more" if value < asked else ""
        return f"{_RLIMIT_NAMES[RLIMITS[name]]}{lower}"


def probe(home: Path) -> Backend:
    """Find out what can bound executors here. `home` is the daemon's folder, and tells it apart.

    On cgroup v2 this may move our own process into a cgroup of its own, if it is alone where it
    is: else no controller can be handed to executors. So it comes before anything is started.
    """
    mounts = read_mounts(
        Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
    )
    return backend_of(find(folder_name(home), mounts))


def folder_name(home: Path) -> str:
    """Name the folder of a daemon in every hierarchy.

    The path alone is not enough: a container that shares our cgroups may have the same one.
    """
    path = home.resolve()
    identity = str(path)
    with contextlib.suppress(FileNotFoundError):
        status = path.stat()
        identity = f"{status.st_dev}:{status.st_ino}:{path}"
    return f"agor-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def backend_of(found: Found) -> Backend:
    """Choose the best that was found, and say in words what it does and does not do."""
    by_version: dict[int, set[str]] = {1: set(), 2: set()}
    for hierarchy in found.hierarchies:
        by_version[hierarchy.version] |= hierarchy.controllers
    # Without both, rlimits have to do what they can.
    needed = {"memory", "pids"}
    name: Kind = "rlimits"
    if needed <= by_version[2]:
        name = "cgroup2"
    elif needed <= by_version[1] | by_version[2]:
        name = "cgroup1"
    return Backend(name, _summary(name, found), found.hierarchies)


def _summary(name: Kind, found: Found) -> str:
    present = {one for each in found.hierarchies for one in each.controllers}
    by_cgroup = [limit for limit, controller in CONTROLLERS.items() if controller in present]
    by_rlimit = [limit for limit in ("memory", "processes") if limit not in by_cgroup]
    sentences = [f"Limits of executors ({name}):"]
    if by_cgroup:
        sentences.append(f"cgroups enforce {', '.join(by_cgroup)};")
    sentences.append(f"rlimits enforce {', '.join(['open_files', *by_rlimit])}")
    if by_rlimit:
        sentences.append("(memory for each process, processes over all of a user and not for root)")
    if "cpus" not in by_cgroup:
        sentences.append("and nothing enforces cpus")
    killer = next((one.base.parent for one in found.hierarchies if one.version == 2), None)
    sentences[-1] += "."
    sentences.append(
        f"Whole executors are killed through cgroup v2 in {killer}."
        if killer
        else "Without a writable cgroup v2, processes are killed one by one."
    )
    if name != "cgroup2":
        reasons = found.why_not or ("no cgroup file system is mounted",)
        sentences.append(f"Nothing better is used because: {'; '.join(reasons)}.")
    return " ".join(sentences)


def explain_death(signal: int | None, cgroup: Cgroup | None) -> str | None:
    """Say why the kernel killed an executor, if it was for memory; None if it was not."""
    if signal != SIGKILL or cgroup is None or not cgroup.out_of_memory():
        return None
    limit = cgroup.memory_limit()
    if limit is None or not cgroup.reached_its_limit():
        return (
            "killed by the kernel: the machine, or the cgroup that agor is in, had no memory left"
        )
    return f"killed for using more than {in_words(limit)} of memory (execution.limits.memory)"


def in_words(size: int) -> str:
    """Write a number of bytes as people do."""
    for unit, name in ((MEBIBYTE * 1024, "GiB"), (MEBIBYTE, "MiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} bytes"


def _hard_limits() -> dict[int, int]:
    return {which: resource.getrlimit(which)[1] for which in RLIMITS.values()}


def _way_in(cgroup: Cgroup) -> tuple[int, ...]:
    try:
        return tuple(cgroup.fds())
    except OSError as error:
        cgroup.discard()
        raise AgorError(
            f"The cgroup of executor {cgroup.executor_id} cannot be opened: {error}.",
            hint="If there are too many open files, raise the daemon's limit (ulimit -n).",
        ) from error
