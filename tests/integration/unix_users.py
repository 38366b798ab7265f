"""Real Unix users and sudo rules for tests, and what of theirs runs or lies around.

Names end with the number of our process, so that two test runs do not meet, and so that what a
killed run left behind can be told from what is in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import grp
import os
import pwd
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.integration.processes import PATIENCE, describe

_PREFIX = "agor-test-"
#: Files there must have no dot in their names, or sudo passes them over.
_SUDOERS = Path("/etc/sudoers.d")
_LOCK = Path("/run/lock/agor-test-users")


@dataclass(frozen=True)
class TestUser:
    """A Unix user that was made for a test run."""

    __test__ = False

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: Path

    @property
    def login(self) -> dict[str, str]:
        """The variables that tell a program who it is."""
        who = {"USER": self.name, "LOGNAME": self.name}
        return who | {"HOME": str(self.home), "SHELL": "/bin/sh"}


def make_user(role: str, *more_groups: str) -> TestUser:
    """Create a user with a home that only it can enter."""
    name = f"{_PREFIX}{role}-{os.getpid()}"
    groups = ["--groups", ",".join(more_groups)] if more_groups else []
    _run("useradd", "--create-home", "--key", "HOME_MODE=0700", "--shell", "/bin/sh", *groups, name)
    found = pwd.getpwnam(name)
    all_groups = tuple(sorted(os.getgrouplist(name, found.pw_gid)))
    return TestUser(name, found.pw_uid, found.pw_gid, all_groups, Path(found.pw_dir))


def make_group(role: str) -> str:
    """Create a group."""
    name = f"{_PREFIX}{role}-{os.getpid()}"
    _run("groupadd", name)
    return name


def remove_all() -> None:
    """Remove the users, groups and rules of this run, and those of runs that were killed."""
    # Other processes of this run may want to remove the same at the same time.
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _remove_all()


def _remove_all() -> None:
    for path in _SUDOERS.glob(f"{_PREFIX}*"):
        if _unused(path.name):
            path.unlink(missing_ok=True)
    for user in [user for user in pwd.getpwall() if _unused(user.pw_name)]:
        end_processes_of(user.pw_uid)
        _run("userdel", "--remove", "--force", user.pw_name)
    for group in [group for group in grp.getgrall() if _unused(group.gr_name)]:
        _run("groupdel", group.gr_name)


def _unused(name: str) -> bool:
    number = name.rpartition("-")[2]
    if not name.startswith(_PREFIX) or not number.isdecimal():
        return False
    return int(number) == os.getpid() or not Path(f"/proc/{number}").exists()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"


# ── sudo ─────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def sudo_rules(*lines: str) -> Iterator[None]:
    """Have these lines in force while the block lasts."""
    path = _SUDOERS / f"{_PREFIX}{os.getpid()}"
    # Checked beside, where sudo does not look: a broken rule would be in everybody's way.
    draft = path.with_name(f"{path.name}.draft")
    draft.touch(mode=0o440)
    try:
        draft.write_text("".join(f"{line}\n" for line in lines))
        _run("visudo", "--check", "--quiet", "--file", str(draft))
        draft.replace(path)
        yield
    finally:
        draft.unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def may_sudo(who: TestUser, target: TestUser, command: Path) -> bool:
    """Tell whether the rules that are in force now let somebody run a command as another."""
    question = ["sudo", "-n", "-l", "-U", who.name, "-u", target.name, str(command), "--version"]
    return subprocess.run(question, capture_output=True, timeout=PATIENCE).returncode == 0


# ── processes ────────────────────────────────────────────────────────────────────────────────────


def processes_of(uid: int) -> set[int]:
    """Find the living processes that run as a user; one that waits to be reaped is dead."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            status = status_of(int(entry.name))
            if status and status["State"][0] not in "ZX" and str(uid) in status["Uid"].split():
                found.add(int(entry.name))
    return found


def status_of(pid: int) -> dict[str, str]:
    """Read what the kernel says of a process; nothing if it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def parent_of(pid: int) -> int:
    """Tell who started a process, or took it over."""
    return int(status_of(pid)["PPid"])


def wait_ended(pid: int, deadline: float | None = None) -> None:
    """Wait for the end of any process."""
    deadline = deadline or time.monotonic() + PATIENCE
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([fd], [], [], max(0, deadline - time.monotonic()))
    finally:
        os.close(fd)
    assert ready, f"still there: {describe(pid)}"


def end_processes_of(uid: int) -> None:
    """Kill all that a user has running."""
    deadline = time.monotonic() + PATIENCE
    while left := processes_of(uid):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_ended(min(left), deadline)


def memory_holds(pid: int, needle: bytes) -> bool:
    """Look for some bytes in all the memory of a process that can be read."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - unbuffered
        for line in maps:
            span, rights, *_ = line.split()
            start, end = (int(number, 16) for number in span.split("-"))
            # What belongs to the kernel, and what was set aside and never used, cannot be read.
            with contextlib.suppress(OSError, OverflowError):
                memory.seek(start)
                if "r" in rights and needle in memory.read(end - start):
                    return True
    return False
