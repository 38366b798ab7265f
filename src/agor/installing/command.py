"""Runs one command of an installation to its end, and ends all of it if we are interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agor.errors import InstallFailed

#: Seconds for half a gigabyte over a slow line.
_TIMEOUT = 1800.0


@dataclass(frozen=True, slots=True)
class Done:
    """A command that is over."""

    exit_code: int
    said: str
    errors: str


def run(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], held: int, agent: str
) -> Done:
    """Run it. It inherits the descriptor `held`, so a lock outlives us for as long as it runs."""
    try:
        running = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=cwd,
            env=env,
            pass_fds=(held,),
            # Agents may run as other Unix users, who have to be able to read them.
            umask=0o022,
            start_new_session=True,
        )
    except OSError as error:
        raise InstallFailed(f"cannot run {command[0]}: {error.strerror}") from error
    try:
        said, errors = running.communicate(timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise InstallFailed(
            f"cannot install {agent}: not done after {_TIMEOUT / 60:g} minutes",
            hint="Try again; what is there already stays as it is.",
        ) from None
    finally:
        # Whatever happens here, Ctrl-C for example, nothing of it goes on.
        with contextlib.suppress(ProcessLookupError):
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.communicate()
    return Done(running.returncode, said, errors)
