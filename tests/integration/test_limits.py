"""Limits of executors over real processes, cgroups and users.

A child of the test stands for the executor: it gets its descriptors over a socket, as the launcher
sends them, goes into its cgroup, sets its rlimits, and then does its worst.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agor.daemon.pool.hierarchies import Found, Mount, find, read_mounts
from agor.daemon.pool.limits import (
    Backend,
    Prepared,
    backend_of,
    explain_death,
    folder_name,
    probe,
)  # fmt: skip
from agor.errors import BadInput
from agor.protocol.limits import MEBIBYTE, ResourceLimits
from tests.contract.descriptors import open_files
from tests.contract.waiting import until
from tests.integration.processes import PATIENCE

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making cgroups and users needs root")

#: Users that nobody else is, in no other run either: RLIMIT_NPROC counts what init has not reaped.
SOMEBODY_ELSE = 1_000_000 + 2 * os.getpid()
LONER = SOMEBODY_ELSE + 1

#: Every user can run it; the interpreter of the tests may lie in root's home.
PYTHON = "/usr/bin/python3"

GO_IN = """
import json, os, resource, signal, socket, sys
way_in = socket.socket(fileno=0)
message, fds, _, _ = socket.recv_fds(way_in, 4096, 16)
for fd in fds:
    os.write(fd, b"0")
    os.close(fd)
for which, value in json.loads(message):
    resource.setrlimit(which, (value, value))
print("in", flush=True)
"""
SIT = "way_in.recv(1)"
FILL_MEMORY = """
held = []
try:
    while True:
        held.append(bytearray(b"x" * 2**20))
except MemoryError:
    held.clear()
    print("MemoryError", flush=True)
"""
# Some in sessions of their own, some with parents that are gone.
FORK_WITHOUT_END = """
started = 0
while True:
    try:
        pid = os.fork()
    except BlockingIOError:
        print("EAGAIN after", started, flush=True)
        signal.pause()
    if pid == 0:
        try:
            os.setsid()
            os.fork() and os._exit(0)
            os.setsid()
        except OSError:
            pass
        signal.pause()
    started += 1
"""
BURN = "while True: pass"
OPEN_FILES = """
try:
    while True:
        os.dup(0)
except OSError as error:
    print(error.errno, flush=True)
"""


class Child:
    """A process that goes where it was told to go, and then does something."""

    def __init__(self, prepared: Prepared, does: str, uid: int = 0) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [PYTHON, "-S", "-E", "-c", GO_IN + does], cwd="/", text=True, stdin=theirs.fileno(),
                stdout=subprocess.PIPE, user=uid, group=uid, extra_groups=[],
                start_new_session=True,
            )  # fmt: skip
        self._held_open = ours
        socket.send_fds(ours, [json.dumps(prepared.rlimits).encode()], list(prepared.fds))
        prepared.close()
        assert self.says() == "in"

    def says(self) -> str:
        """Wait for its next line; the time-out of the test bounds it."""
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def ends(self) -> int:
        """Wait for its end; gives its exit code, negative for a signal."""
        return self.process.wait(PATIENCE)

    def clean_up(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        assert self.process.stdout
        self.process.stdout.close()
        self._held_open.close()


Run = Callable[..., Child]


@pytest.fixture
def run() -> Iterator[Run]:
    children: list[Child] = []

    def start(prepared: Prepared, does: str, uid: int = 0) -> Child:
        children.append(Child(prepared, does, uid))
        return children[-1]

    yield start
    for child in children:
        child.clean_up()


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[Backend]:
    """What this machine has; whatever a test makes is gone after it."""
    backend = probe(tmp_path)
    yield backend
    again = probe(tmp_path)
    for executor_id in again.leftovers():
        cgroup = again.open(executor_id)
        assert cgroup
        assert await cgroup.kill() == 0
        assert await cgroup.remove()
    assert folders_left(tmp_path) == []


@pytest.fixture
def cgroups(backend: Backend) -> Backend:
    """The same, where cgroups do the work."""
    if backend.name == "rlimits":
        assert "Nothing better is used because" in backend.summary
        pytest.skip(backend.summary)
    return backend


@pytest.fixture
def bare() -> Backend:
    """A machine without any cgroup."""
    return backend_of(Found((), ()))


def mounts() -> list[Mount]:
    return read_mounts(
        Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
    )


def folders_left(home: Path) -> list[str]:
    name = folder_name(home)
    everything = (path for mount in mounts() for path, _, _ in os.walk(mount.top))
    return [path for path in everything if name in path]


def folder_with(prepared: Prepared, name: str) -> Path:
    assert prepared.cgroup
    return next(folder for folder in prepared.cgroup.folders if (folder / name).exists())


async def test_who_fills_its_memory_is_killed_and_told_why_and_its_neighbour_lives(
    cgroups: Backend, run: Run
) -> None:
    greedy = cgroups.prepare("greedy", ResourceLimits(memory=64 * MEBIBYTE))
    modest = cgroups.prepare("modest", ResourceLimits(memory=64 * MEBIBYTE))
    neighbour = run(modest, SIT)
    assert run(greedy, FILL_MEMORY).ends() == -signal.SIGKILL
    assert (
        explain_death(signal.SIGKILL, greedy.cgroup)
        == "killed for using more than 64 MiB of memory (execution.limits.memory)"
    )
    assert neighbour.process.poll() is None
    assert modest.cgroup
    assert modest.cgroup.members() == [neighbour.process.pid]
    assert not modest.cgroup.out_of_memory()


async def test_all_of_an_executor_counts_as_one_memory(cgroups: Backend, run: Run) -> None:
    prepared = cgroups.prepare("family", ResourceLimits(memory=64 * MEBIBYTE))
    # Two halves too many: each process alone would be within the limit.
    child = run(
        prepared,
        "held = bytearray(b'x' * 40 * 2**20); pid = os.fork()\n"
        "held[::4096] = b'y' * len(held[::4096])\n"
        "if pid == 0: print('more', flush=True); way_in.recv(1)\n"
        "else: os.waitpid(pid, 0)",
    )
    assert child.says() in ("", "more")
    assert prepared.cgroup
    await until(prepared.cgroup.out_of_memory)


async def test_a_killed_executor_that_had_memory_left_is_not_blamed(
    cgroups: Backend, run: Run
) -> None:
    prepared = cgroups.prepare("innocent", ResourceLimits(memory=64 * MEBIBYTE))
    child = run(prepared, SIT)
    child.process.kill()
    child.ends()
    assert explain_death(signal.SIGKILL, prepared.cgroup) is None
    assert explain_death(signal.SIGTERM, prepared.cgroup) is None
    assert explain_death(None, None) is None


@pytest.mark.parametrize("switch", ["with cgroup.kill", "with signals"])
async def test_a_fork_loop_is_stopped_and_nobody_of_it_survives_the_kill(
    cgroups: Backend, run: Run, switch: str
) -> None:
    if switch == "with signals":
        plain = tuple(one for one in cgroups.hierarchies if one.version == 1)
        if not any("pids" in one.controllers for one in plain):
            pytest.skip("there is no cgroup v1 here: every cgroup has cgroup.kill")
        cgroups = replace(cgroups, hierarchies=plain)
    prepared = cgroups.prepare("loop", ResourceLimits(processes=30))
    assert prepared.cgroup
    child = run(prepared, FORK_WITHOUT_END)
    assert child.says().startswith("EAGAIN")
    members = prepared.cgroup.members()
    # Those in between double forks are gone again by now or soon.
    assert 10 < len(members) <= 30
    assert len({os.getsid(pid) for pid in members}) > 5
    assert await prepared.cgroup.kill() == 0
    assert prepared.cgroup.members() == []
    assert await prepared.cgroup.wait_empty(0)
    assert child.ends() == -signal.SIGKILL
    assert await prepared.cgroup.remove()
    assert cgroups.leftovers() == []


async def test_half_a_processor_is_half_a_processor(cgroups: Backend, run: Run) -> None:
    prepared = cgroups.prepare("burner", ResourceLimits(cpus=0.5))
    if prepared.achieved["cpus"].startswith("not enforced"):
        pytest.skip(prepared.achieved["cpus"])
    if "v2" in prepared.achieved["cpus"]:
        cpu = folder_with(prepared, "cpu.max")
        assert (cpu / "cpu.max").read_text() == "50000 100000\n"
    else:
        cpu = folder_with(prepared, "cpu.cfs_quota_us")
        assert (cpu / "cpu.cfs_quota_us").read_text() == "50000\n"
        assert (cpu / "cpu.cfs_period_us").read_text() == "100000\n"
    run(prepared, BURN)

    def throttled() -> int:
        stat = dict(line.split() for line in (cpu / "cpu.stat").read_text().splitlines())
        return int(stat["nr_throttled"])

    await until(throttled)


async def test_open_files_end_with_emfile(backend: Backend, run: Run) -> None:
    prepared = backend.prepare("opener", ResourceLimits(open_files=20))
    assert prepared.achieved == {"open_files": "RLIMIT_NOFILE, for each process"}
    assert run(prepared, OPEN_FILES).says() == "24"


async def test_a_process_of_another_user_places_itself_through_the_descriptor_it_was_handed(
    cgroups: Backend, run: Run
) -> None:
    limits = ResourceLimits(memory=64 * MEBIBYTE, processes=20)
    prepared = cgroups.prepare("guest", limits, uid=SOMEBODY_ELSE)
    assert prepared.cgroup
    shut = [str(folder / "cgroup.procs") for folder in prepared.cgroup.folders]
    child = run(
        prepared,
        f"could_open = any(os.access(path, os.W_OK) for path in {shut!r})\n"
        f"print(could_open, os.getuid(), flush=True)\n{SIT}",
        SOMEBODY_ELSE,
    )
    assert child.says() == f"False {SOMEBODY_ELSE}"
    assert prepared.cgroup.members() == [child.process.pid]
    for folder in prepared.cgroup.folders:
        assert (folder / "cgroup.procs").read_text() == f"{child.process.pid}\n"
    assert await prepared.cgroup.kill() == 0
    assert child.ends() == -signal.SIGKILL


async def test_another_users_fork_loop_is_killed_too(cgroups: Backend, run: Run) -> None:
    prepared = cgroups.prepare("guests", ResourceLimits(processes=30), uid=SOMEBODY_ELSE)
    assert prepared.cgroup
    assert run(prepared, FORK_WITHOUT_END, SOMEBODY_ELSE).says().startswith("EAGAIN")
    assert await prepared.cgroup.kill() == 0
    assert prepared.cgroup.members() == []


async def test_a_restarted_daemon_finds_what_was_left_and_removes_it(
    cgroups: Backend, run: Run, tmp_path: Path
) -> None:
    child = run(cgroups.prepare("left", ResourceLimits(memory=64 * MEBIBYTE)), SIT)
    restarted = probe(tmp_path)
    assert restarted.leftovers() == ["left"]
    cgroup = restarted.open("left")
    assert cgroup
    assert cgroup.members() == [child.process.pid]
    assert cgroup.memory_limit() == 64 * MEBIBYTE
    assert await cgroup.kill() == 0
    assert await cgroup.remove()
    assert restarted.leftovers() == []
    assert restarted.open("left") is None
    assert folders_left(tmp_path) == []


async def test_a_daemon_restarted_in_another_cgroup_finds_it_as_well(
    cgroups: Backend, tmp_path: Path
) -> None:
    parent = cgroups.hierarchies[0].base.parent
    mount = next(mount for mount in mounts() if parent.is_relative_to(mount.top))
    elsewhere = parent / f"{folder_name(tmp_path)}-session"
    elsewhere.mkdir()
    try:
        before = backend_of(find(folder_name(tmp_path), [replace(mount, own=elsewhere)]))
        before.prepare("far", ResourceLimits()).close()
        now = probe(tmp_path)
        assert now.leftovers() == ["far"]
        cgroup = now.open("far")
        assert cgroup
        assert await cgroup.remove()
    finally:
        elsewhere.rmdir()


async def test_a_cgroup_with_somebody_in_it_is_not_removed_and_the_log_says_so(
    cgroups: Backend, run: Run
) -> None:
    prepared = cgroups.prepare("busy", ResourceLimits())
    child = run(prepared, SIT)
    assert prepared.cgroup
    assert not await prepared.cgroup.wait_empty(0)
    with capture_logs() as logged:
        assert not await prepared.cgroup.remove(timeout=0)
    assert [(line["event"], line["processes"]) for line in logged] == [
        ("cgroup_not_removed", [child.process.pid])
    ]


async def test_cgroups_made_inside_are_killed_and_removed_as_well(
    cgroups: Backend, run: Run
) -> None:
    prepared = cgroups.prepare("nest", ResourceLimits())
    assert prepared.cgroup
    inner = prepared.cgroup.folders[0] / "inner"
    child = run(
        prepared,
        f"os.mkdir({str(inner)!r}); open({str(inner / 'cgroup.procs')!r}, 'w').write('0')\n"
        "print('inside', flush=True); signal.pause()",
    )
    assert child.says() == "inside"
    assert prepared.cgroup.members() == [child.process.pid]
    assert await prepared.cgroup.kill() == 0
    assert await prepared.cgroup.remove()


async def test_an_executor_id_is_given_one_cgroup_only(cgroups: Backend) -> None:
    cgroups.prepare("one", ResourceLimits()).close()
    with pytest.raises(BadInput, match="already"):
        cgroups.prepare("one", ResourceLimits())


@pytest.mark.parametrize("executor_id", ["", "../up", "a/b", ".", "a\n", "x" * 129])
async def test_an_id_that_is_no_plain_name_makes_no_folder(
    cgroups: Backend, executor_id: str
) -> None:
    with pytest.raises(BadInput, match="cannot name a cgroup"):
        cgroups.prepare(executor_id, ResourceLimits())


async def test_what_the_kernel_refuses_is_reported_and_left_to_rlimits(
    cgroups: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not even root can write here what is not a number.
    monkeypatch.setattr(
        "agor.daemon.pool.cgroups.settings",
        lambda limits, version: {
            "cpus": [("cgroup.procs", "nonsense")], "memory": [("cgroup.procs", "nonsense")],
        },
    )  # fmt: skip
    with capture_logs() as logged:
        prepared = cgroups.prepare("refused", ResourceLimits(memory=64 * MEBIBYTE, cpus=1))
    prepared.close()
    assert "does not take nonsense: Invalid argument" in prepared.achieved["cpus"]
    assert prepared.achieved["cpus"].startswith("not enforced: ")
    assert prepared.achieved["memory"].startswith("RLIMIT_AS")
    assert [(line["event"], line["limit"]) for line in logged] == [("limit_not_enforced", "cpus")]


async def test_preparing_and_killing_leave_no_descriptor_open(cgroups: Backend, run: Run) -> None:
    before = open_files()
    prepared = cgroups.prepare("tidy", ResourceLimits(memory=64 * MEBIBYTE))
    assert len(open_files()) == len(before) + len(prepared.fds)
    prepared.close()
    assert prepared.cgroup
    assert await prepared.cgroup.kill() == 0
    assert await prepared.cgroup.remove()
    assert open_files() == before


async def test_without_cgroups_memory_ends_with_a_memory_error(bare: Backend, run: Run) -> None:
    prepared = bare.prepare("plain", ResourceLimits(memory=128 * MEBIBYTE))
    assert prepared.achieved["memory"].startswith("RLIMIT_AS, for each process")
    assert run(prepared, FILL_MEMORY).says() == "MemoryError"


async def test_without_cgroups_another_users_fork_loop_gets_eagain(bare: Backend, run: Run) -> None:
    prepared = bare.prepare("plain", ResourceLimits(processes=10), uid=LONER)
    assert prepared.achieved["processes"].startswith("RLIMIT_NPROC")
    loop = FORK_WITHOUT_END.replace("os.setsid()", "").replace("os.fork() and", "False and")
    assert run(prepared, loop, LONER).says() == "EAGAIN after 9"


async def test_without_cgroups_open_files_end_with_emfile(bare: Backend, run: Run) -> None:
    assert run(bare.prepare("plain", ResourceLimits(open_files=20)), OPEN_FILES).says() == "24"


async def test_without_cgroups_what_cannot_be_enforced_is_said_and_logged(bare: Backend) -> None:
    with capture_logs() as logged:
        prepared = bare.prepare("plain", ResourceLimits(cpus=0.5, processes=10), uid=0)
    assert prepared.cgroup is None
    assert prepared.achieved == {
        "cpus": "not enforced: there is no cgroup to do it, and rlimits know no share of the "
        "processors",
        "processes": "not enforced: there is no cgroup to do it, and RLIMIT_NPROC does not bind "
        "root",
    }
    assert [line["limit"] for line in logged] == ["cpus", "processes"]


async def test_a_place_where_no_cgroup_can_be_made_is_told_in_words(tmp_path: Path) -> None:
    there_is_no_such = Mount(1, frozenset({"memory"}), tmp_path, tmp_path / "none")
    found = backend_of(find("agor-x", [there_is_no_such]))
    assert found.name == "rlimits"
    assert f"no cgroup can be made in {tmp_path / 'none'}: No such file" in found.summary


async def test_probing_leaves_nothing_behind(tmp_path: Path) -> None:
    backend = probe(tmp_path)
    assert backend.leftovers() == []
    assert folders_left(tmp_path) == []
