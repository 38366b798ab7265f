"""Looks at a machine and says whether the pool can work here, and what to do where it cannot.

It changes nothing. What can be tried is tried: a user's executors can run if one has run.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import agor
from agor.daemon.pool.folders import ID_LENGTH, check_private
from agor.daemon.pool.identities import check
from agor.daemon.pool.limits import probe
from agor.environments.identity import UnixIdentity, plain_environment, way_to
from agor.environments.launching import becoming, command_as, executor_command
from agor.errors import AgorError
from agor.rpc.unix import MAX_PATH

_TRY_TIMEOUT = 30.0
#: As long as the name of an executor's socket below the runtime folder.
_SOCKET = f"executors/{'0' * ID_LENGTH}.sock"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    #: A warning can be lived with; a problem cannot.
    state: Literal["ok", "warning", "problem"]
    what: str
    #: What the reader can do about it.
    to_do: str | None = None


def examine(runtime: Path, unix_users: Sequence[str] = ()) -> Iterator[Finding]:
    """Look at everything; each finding comes as soon as it is there."""
    yield check_installation()
    yield check_runtime(runtime)
    yield check_limits(runtime)
    yield check_sudo()
    for name in unix_users:
        yield check_user(name)


def check_installation() -> Finding:
    """Is this a platform we know, and is all of agor there?"""
    python = f"Python {platform.python_version()} in {sys.prefix}"
    what = f"agor {agor.__version__}, {python}, {platform.system()} {platform.release()}"
    if sys.platform != "linux":
        return Finding("agor", "problem", what, "agor runs on Linux.")
    if not os.access(executor_command(), os.X_OK):
        missing = f"{executor_command()} is missing or cannot be run"
        return Finding("agor", "problem", missing, "Install agor again: pip install agor")
    return Finding("agor", "ok", what)


def check_runtime(runtime: Path) -> Finding:
    """Can we have sockets in the runtime folder, and nobody else?"""
    longest = len(os.fsencode(runtime / _SOCKET))
    if longest > MAX_PATH:
        what = f"{runtime} is too long for sockets, by {longest - MAX_PATH} characters"
        to_do = "Choose a shorter folder, for example one below /run: AGOR_HOME=/run/agor"
        return Finding("runtime", "problem", what, to_do)
    if runtime.exists():
        try:
            check_private(runtime)
        except AgorError as error:
            return Finding("runtime", "problem", error.message, error.hint)
        return Finding("runtime", "ok", f"{runtime} is ours alone")
    parent = next(one for one in runtime.absolute().parents if one.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        what = f"{runtime} does not exist, and we cannot create it in {parent}"
        return Finding("runtime", "problem", what, "Create it, or set AGOR_HOME to another folder.")
    return Finding("runtime", "ok", f"{runtime} will be created at the first start")


def check_limits(runtime: Path) -> Finding:
    """What can bound executors here?"""
    backend = probe(runtime)
    if backend.name == "rlimits":
        to_do = (
            "Executors run all the same. For limits on all processes of one together, give the "
            "daemon a cgroup of its own (systemd: Delegate=yes)."
        )
        return Finding("limits", "warning", backend.summary, to_do)
    return Finding("limits", "ok", backend.summary)


def check_sudo() -> Finding:
    """Is there a way to become another user?"""
    found = shutil.which("sudo")
    if os.geteuid() == 0:
        return Finding("sudo", "ok", "not needed: root becomes any user by itself")
    if found is None:
        what = "there is no sudo, so executors can run as the daemon's own user only"
        to_do = "If execution.run_as_unix_user is to be on: apt-get install sudo"
        return Finding("sudo", "warning", what, to_do)
    return Finding("sudo", "ok", found)


def check_user(name: str) -> Finding:
    """Can executors run as this Unix user?"""
    try:
        identity = UnixIdentity.of(name)
        check(identity)
    except AgorError as error:
        return Finding(name, "problem", error.message, error.hint)
    if (why := _try_as(identity)) is not None:
        what = f"executors cannot run as {name}: {why}"
        to_do = (
            f"{name} must be able to read and run {executor_command()} and its Python, "
            f"{Path(sys.executable).resolve()}. Are all folders above open to others (chmod a+x)?"
        )
        return Finding(name, "problem", what, to_do)
    if not Path(identity.home).is_dir():
        what = f"executors can run as {name}, but {identity.home} is missing; they start in /"
        return Finding(name, "warning", what, f"Create it: mkhomedir_helper {name}")
    ways = {"self": "which is us", "setuid": "by setuid", "sudo": "through sudo"}
    return Finding(name, "ok", f"executors can run as {name}, {ways[way_to(identity)]}")


def _try_as(identity: UnixIdentity) -> str | None:
    """Run the program as a user, to no end; if that fails, say why."""
    try:
        done = subprocess.run(
            command_as(identity, ["--version"]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TRY_TIMEOUT,
            check=False,
            env=plain_environment(identity),
            cwd="/",
            start_new_session=True,
            **becoming(identity),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()
    return said[-1] if said else f"exit code {done.returncode}"
