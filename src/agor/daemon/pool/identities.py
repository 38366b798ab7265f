"""Who an executor runs as. It fails closed: never as the daemon's user instead of another.

run_as_unix_user off                 → the daemon's own user
on, and the person has a Unix user   → that one
on, and it has none                  → executor_unix_user, or refused
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from agor.daemon.pool.settings import Claim, PoolSettings
from agor.environments.identity import UnixIdentity, way_to
from agor.environments.launching import executor_command, launcher_command
from agor.errors import ImpersonationRefused, LauncherLost

#: Seconds for sudo to say whether it would.
_SUDO_TIMEOUT = 10.0
#: What means something in a sudoers file; in names there is more.
_SPECIAL = r"[\\,:=#\s]"


def identity_for(claim: Claim, settings: PoolSettings) -> UnixIdentity:
    """Decide who the executor of this claim runs as."""
    if not settings.run_as_unix_user:
        return UnixIdentity.current()
    name = claim.unix_username or settings.executor_unix_user
    if name is None:
        raise ImpersonationRefused(
            f"user {claim.user_id} has no Unix user, and execution.run_as_unix_user is on",
            hint="Map them with `agor user set-unix-user`, or set execution.executor_unix_user.",
        )
    identity = UnixIdentity.of(name)
    if identity.uid in (0, os.getuid()):
        raise ImpersonationRefused(
            f"user {claim.user_id} is mapped to {name}, who could read the daemon's keys",
            hint="Map them to a Unix user that is neither root nor the daemon's own.",
        )
    return identity


def sudoers_line(identity: UnixIdentity) -> str:
    """Spell the rule that lets us start executors as this user, and nothing else."""
    ours = UnixIdentity.current()
    # In a container we may have no name.
    us = f"#{ours.uid}" if ours.name == str(ours.uid) else _escape_name(ours.name)
    command = re.sub(_SPECIAL, r"\\\g<0>", str(executor_command()))
    return f"{us} ALL=({_escape_name(identity.name)}) NOPASSWD: {command} *"


def _escape_name(name: str) -> str:
    return re.sub(rf"{_SPECIAL}|[@!()]", r"\\\g<0>", name)


def refusal(identity: UnixIdentity, why: str) -> ImpersonationRefused:
    """Say that we cannot become this user, and which line would change it."""
    return ImpersonationRefused(
        f"cannot run executors as {identity.name}: {why}",
        hint=f"Add this line with `visudo -f /etc/sudoers.d/agor`:\n{sudoers_line(identity)}",
    )


def check(identity: UnixIdentity) -> None:
    """Find out whether we may run executors as this user, without starting one."""
    if way_to(identity) != "sudo":
        return
    if shutil.which("sudo") is None:
        raise refusal(identity, "there is no sudo on this machine (apt-get install sudo)")
    _, *tail = launcher_command(identity, ["--orphan-timeout-ms", "1"])
    command = ["sudo", "-n", "-l", *tail[1:3], *tail[4:]]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_SUDO_TIMEOUT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        # That is no answer: on a busy machine it has one the next time.
        raise LauncherLost(
            f"sudo did not say in {_SUDO_TIMEOUT:g} s whether it runs executors as {identity.name}"
        ) from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise refusal(identity, said[-1] if said else "sudo does not allow it")
