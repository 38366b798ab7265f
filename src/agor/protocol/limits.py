"""What one executor may use, and which part of that its process must bound by itself.

The daemon puts an executor into a cgroup where it can. The rest is rlimits, which only the process
itself can set: it gets them as numbers, made here. Two of them are weaker than they look:
- RLIMIT_AS bounds the addresses of each process, not the memory of all of them together;
- RLIMIT_NPROC counts all processes and threads of a uid, over all sessions of that user, and does
  not bind root at all.
So they stand in for memory and processes only where no cgroup does it.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

#: What enforces the limits, best first. Cgroup kinds bound memory and processes by themselves.
Kind = Literal["cgroup2", "cgroup1", "rlimits"]

MEBIBYTE = 1024 * 1024


class ResourceLimits(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """The most that one executor, with everything it starts, may use. None: no limit."""

    #: Bytes, with swap. Less than the least is a number meant in another unit.
    memory: Annotated[int, Meta(ge=16 * MEBIBYTE, le=2**60)] | None = None
    #: Processors' worth of time: 0.5 is half of one. The kernel's least share is 1 ms in 100.
    cpus: Annotated[float, Meta(ge=0.01, le=10_000)] | None = None
    #: Processes and threads together, as the kernel counts them.
    processes: Annotated[int, Meta(ge=1, le=2**22)] | None = None
    #: Open descriptors of each process.
    open_files: Annotated[int, Meta(ge=16, le=2**30)] | None = None
    #: Seconds from the executor's start. The pool watches it; nothing here does.
    wall_time: Annotated[float, Meta(gt=0, le=2**31)] | None = None

    @property
    def asked(self) -> list[str]:
        """The names of the limits that are set."""
        return [name for name in self.__struct_fields__ if getattr(self, name) is not None]


#: Limit → the rlimit that bounds it, or comes closest.
RLIMITS = {
    "open_files": resource.RLIMIT_NOFILE,
    "memory": resource.RLIMIT_AS,
    "processes": resource.RLIMIT_NPROC,
}


def rlimits(
    limits: ResourceLimits, *, kind: Kind, hard: Mapping[int, int] | None = None
) -> list[tuple[int, int]]:
    """Say what the process must set itself, as (resource, value) pairs.

    `hard` has the hard limits in force, as `getrlimit` gives them; no value exceeds its own. The
    process that sets a value passes it through `within` again: its hard limits may be others.
    """
    names = ["open_files"] if kind in ("cgroup2", "cgroup1") else list(RLIMITS)
    present = hard or {}
    pairs: list[tuple[int, int]] = []
    for name in names:
        wanted: int | None = getattr(limits, name)
        if wanted is not None:
            which = RLIMITS[name]
            pairs.append((which, within(wanted, present.get(which, resource.RLIM_INFINITY))))
    return pairs


def within(wanted: int, hard: int) -> int:
    """Give the value to set as soft and hard limit: more than the hard one is not allowed.

    Raising it takes CAP_SYS_RESOURCE, which even root may lack in a container.
    """
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
