"""Running a command as a Unix user: directly, by setuid, or through sudo.

In every way a few lines of shell come first, with that user's rights already: they enter the folder
and then become the command. So a folder that only we may enter stays closed to it, and a program
that is missing shows in the same way everywhere, as exit code 127.

sudo passes no environment on, and an argument can be read by everybody on the machine. So there
the shell reads the environment from standard input, before the command does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from agor.environments.identity import UnixIdentity, way_to
from agor.errors import BadInput

log = structlog.get_logger("agor.environments")

#: A name is looked up first: to `exec`, one that is nowhere is forbidden instead of missing if a
#: folder of our PATH is closed to the user.
_ENTER = """umask 022
cd -- "$1" || exit 126
unset OLDPWD
shift
case $1 in
*/*) ;;
*) command -v "$1" >/dev/null || { echo "$1: there is no such program" >&2; exit 127; } ;;
esac
exec "$@"
"""
#: dd reads byte by byte: not one of those that are meant for the command.
_TAKE_ENVIRONMENT = """eval "$(dd bs=1 count="$1" 2>/dev/null)" || exit 126
shift
unset SUDO_COMMAND SUDO_USER SUDO_UID SUDO_GID SUDO_HOME MAIL
"""
#: What fits into an empty pipe at once, with room to spare.
_MAX_SUDO_ENVIRONMENT = 60_000
_SUDO_KILL_WAIT = 5.0


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start, and with what."""

    argv: list[str]
    env: dict[str, str]
    #: For the shell lines in front; to be in the pipe before the command's own input.
    first_input: bytes = b""
    #: Keywords for Popen that change the user.
    become: dict[str, Any] = field(default_factory=dict)


def plan_launch(
    identity: UnixIdentity, command: Sequence[str], env: Mapping[str, str], cwd: str
) -> Launch:
    """Plan how a command is started as this user, with exactly this environment."""
    way = way_to(identity)
    if way == "sudo":
        lines = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())
        first = os.fsencode(lines)
        if len(first) > _MAX_SUDO_ENVIRONMENT:
            raise BadInput(
                f"the environment of {command[0]!r} has {len(first)} bytes; through sudo it may "
                f"have {_MAX_SUDO_ENVIRONMENT}",
                hint="Write what is large to a file, and pass its path.",
            )
        shell = ["/bin/sh", "-c", _TAKE_ENVIRONMENT + _ENTER, "sh", str(len(first)), cwd]
        return Launch([*_sudo(identity), *shell, *command], dict(env), first)
    become: dict[str, Any] = {}
    if way == "setuid":
        become = {"user": identity.uid, "group": identity.gid, "extra_groups": identity.groups}
    return Launch(["/bin/sh", "-c", _ENTER, "sh", cwd, *command], dict(env), become=become)


async def signal_group(identity: UnixIdentity, group: int, number: signal.Signals) -> None:
    """Send a signal to a process group of this user's.

    We may not signal another user's processes, and sudo would relay a signal to its own child
    only. So there somebody else does it: a `kill` that is run as that user.
    """
    through_sudo = way_to(identity) == "sudo"
    if through_sudo:
        await _signal_through_sudo(identity, group, number)
    # Of sudo's group only sudo itself is left by then, and KILL is all it needs.
    if not through_sudo or number == signal.SIGKILL:
        # EPERM: what is left of it changed its user, and is beyond us.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


async def _signal_through_sudo(identity: UnixIdentity, group: int, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    script = 'kill -s "$1" -- "-$2" 2>/dev/null'
    command = [*_sudo(identity), "/bin/sh", "-c", script, "sh", name, str(group)]
    try:
        await asyncio.to_thread(
            subprocess.run,
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SUDO_KILL_WAIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("cannot signal a process group", group=group, user=identity.name, why=error)


def sudo_rule(identity: UnixIdentity) -> str:
    """Say what the file sudoers needs so that we may run commands as this user."""
    return f"{UnixIdentity.current().name} ALL=({identity.name}) NOPASSWD: ALL"


def _sudo(identity: UnixIdentity) -> list[str]:
    return ["sudo", "-n", "-u", identity.name, "--"]
