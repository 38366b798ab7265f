"""What limits mean, before any process is there: numbers, file names, words."""

from __future__ import annotations

from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_AS, RLIMIT_NOFILE, RLIMIT_NPROC
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agor.daemon.pool.cgroups import settings
from agor.daemon.pool.hierarchies import Found, Hierarchy, Mount, read_mounts
from agor.daemon.pool.limits import backend_of, folder_name, in_words
from agor.protocol.limits import MEBIBYTE, Kind, ResourceLimits, rlimits, within

EVERYTHING = ResourceLimits(
    memory=512 * MEBIBYTE, cpus=1.5, processes=100, open_files=1024, wall_time=60
)
BASE = Path("/sys/fs/cgroup/agor-x")


def test_nothing_is_limited_unless_asked() -> None:
    limits = msgspec.convert({}, ResourceLimits)
    assert limits.asked == []
    assert rlimits(limits, kind="rlimits") == []
    assert settings(limits, 1) == settings(limits, 2) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory": 512}, {"memory": -1}, {"memory": 2**61}, {"memory": "512M"},
        {"cpus": 0}, {"cpus": 0.001}, {"cpus": float("nan")}, {"cpus": float("inf")},
        {"processes": 0}, {"processes": 2**23}, {"processes": 1.5},
        {"open_files": 3}, {"wall_time": 0}, {"wall_time": float("inf")},
    ],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_refused_by_its_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match=rf"\$\.{next(iter(wrong))}"):
        msgspec.convert(wrong, ResourceLimits)


def test_limits_survive_the_wire() -> None:
    assert msgspec.json.decode(msgspec.json.encode(EVERYTHING), type=ResourceLimits) == EVERYTHING


@pytest.mark.parametrize("kind", ["cgroup1", "cgroup2"])
def test_with_cgroups_only_open_files_are_left_to_the_process(kind: Kind) -> None:
    assert rlimits(EVERYTHING, kind=kind) == [(RLIMIT_NOFILE, 1024)]


def test_without_cgroups_the_process_bounds_what_it_can() -> None:
    assert dict(rlimits(EVERYTHING, kind="rlimits")) == {
        RLIMIT_NOFILE: 1024,
        RLIMIT_AS: 512 * MEBIBYTE,
        RLIMIT_NPROC: 100,
    }


@given(st.integers(1, 2**40), st.integers(0, 2**40) | st.just(RLIM_INFINITY))
def test_no_value_is_above_the_hard_limit_nor_above_what_was_asked(asked: int, hard: int) -> None:
    value = within(asked, hard)
    assert value <= asked
    assert value in (asked, hard)
    assert hard == RLIM_INFINITY or value <= hard
    limits = ResourceLimits(open_files=asked)
    assert rlimits(limits, kind="rlimits", hard={RLIMIT_NOFILE: hard}) == [(RLIMIT_NOFILE, value)]


def test_v2_takes_the_whole_executor_at_once_and_gives_it_no_swap() -> None:
    assert settings(EVERYTHING, 2) == {
        "memory": [
            ("memory.max", "536870912"), ("memory.swap.max?", "0"), ("memory.oom.group?", "1"),
        ],
        "cpus": [("cpu.max", "150000 100000")],
        "processes": [("pids.max", "100")],
    }  # fmt: skip


def test_v1_counts_swap_as_memory_and_sets_it_last() -> None:
    assert settings(EVERYTHING, 1) == {
        "memory": [
            ("memory.limit_in_bytes", "536870912"), ("memory.memsw.limit_in_bytes?", "536870912"),
        ],
        "cpus": [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "150000")],
        "processes": [("pids.max", "100")],
    }  # fmt: skip


@given(st.floats(0.01, 10_000))
def test_a_share_of_the_processors_is_never_less_than_the_kernel_takes(cpus: float) -> None:
    quota = int(settings(ResourceLimits(cpus=cpus), 2)["cpus"][0][1].split()[0])
    assert quota >= 1000
    assert quota == pytest.approx(cpus * 100_000, abs=1)


def test_a_machine_with_v2_only_is_read() -> None:
    assert read_mounts(
        "22 1 8:1 / / rw - ext4 /dev/vda rw\n"
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate",
        "0::/system.slice/agor.service\n",
    ) == [
        Mount(2, frozenset(), Path("/sys/fs/cgroup"),
              Path("/sys/fs/cgroup/system.slice/agor.service")),
    ]  # fmt: skip


def test_a_machine_with_both_is_read_and_v2_comes_first() -> None:
    found = read_mounts(
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "37 31 0:34 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
        "5:memory:/user.slice\n4:freezer:/\n3:cpu,cpuacct:/\n1:name=systemd:/a:b\n0::/session\n",
    )
    assert [(mount.version, set(mount.controllers), str(mount.own)) for mount in found] == [
        (2, set(), "/sys/fs/cgroup/unified/session"),
        (1, {"cpu"}, "/sys/fs/cgroup/cpu,cpuacct"),
        (1, {"memory"}, "/sys/fs/cgroup/memory/user.slice"),
    ]


def test_in_a_container_the_mount_shows_a_part_of_the_tree() -> None:
    part = "35 31 0:32 /docker/abc /sys/fs/c\\040g ro - cgroup cgroup rw,memory"
    (mount,) = read_mounts(part, "5:memory:/docker/abc/inner\n")
    assert mount.own == Path("/sys/fs/c g/inner")


@pytest.mark.parametrize("own", ["/elsewhere", "/../sibling", "/docker/abc/../def"])
def test_a_cgroup_that_the_mount_does_not_show_is_left_alone(own: str) -> None:
    part = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
    assert read_mounts(part, f"5:memory:{own}\n") == []


def test_two_homes_have_two_folders_and_one_home_always_the_same(tmp_path: Path) -> None:
    assert folder_name(tmp_path) == folder_name(tmp_path / "x" / "..")
    assert folder_name(tmp_path) != folder_name(tmp_path / "not there yet")
    assert folder_name(tmp_path).startswith("agor-")


def hierarchy(version: int, *controllers: str) -> Hierarchy:
    return Hierarchy(version, BASE, frozenset(controllers))


@pytest.mark.parametrize(
    ("hierarchies", "name"),
    [
        ([hierarchy(2, "memory", "pids", "cpu")], "cgroup2"),
        ([hierarchy(2, "memory", "pids")], "cgroup2"),
        ([hierarchy(2), hierarchy(1, "memory"), hierarchy(1, "pids")], "cgroup1"),
        ([hierarchy(2, "pids"), hierarchy(1, "memory")], "cgroup1"),
        ([hierarchy(2), hierarchy(1, "cpu"), hierarchy(1, "memory")], "rlimits"),
        ([], "rlimits"),
    ],
)
def test_the_best_that_bounds_memory_and_processes_is_chosen(
    hierarchies: list[Hierarchy], name: str
) -> None:
    assert backend_of(Found(tuple(hierarchies), ("why",))).name == name


def test_the_summary_says_what_is_done_by_what() -> None:
    assert backend_of(Found((hierarchy(2, "memory", "pids", "cpu"),), ())).summary == (
        "Limits of executors (cgroup2): cgroups enforce memory, processes, cpus; rlimits enforce "
        "open_files. Whole executors are killed through cgroup v2 in /sys/fs/cgroup."
    )


def test_the_summary_says_what_is_not_done_and_why() -> None:
    why_not = "no cgroup can be made in /c: Read-only file system"
    assert backend_of(Found((), (why_not,))).summary == (
        "Limits of executors (rlimits): rlimits enforce open_files, memory, processes (memory for "
        "each process, processes over all of a user and not for root) and nothing enforces cpus. "
        "Without a writable cgroup v2, processes are killed one by one. Nothing better is used "
        "because: no cgroup can be made in /c: Read-only file system."
    )


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (512 * MEBIBYTE, "512 MiB"), (1024 * MEBIBYTE, "1 GiB"), (1536 * MEBIBYTE, "1.5 GiB"),
        (64 * MEBIBYTE + 4096, "64 MiB"), (12345, "12345 bytes"),
    ],
)  # fmt: skip
def test_sizes_are_written_as_people_do(size: int, words: str) -> None:
    assert in_words(size) == words
