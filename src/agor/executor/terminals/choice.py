"""Which shell a terminal runs, and what it gets to see."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

from agor.agents.environment import program_environment
from agor.errors import HandlerFailed, InvalidParams
from agor.protocol.terminals import SpawnTerminalParams
from agor.protocol.validation import quoted

#: What the far end of a terminal is most likely to understand; it can say otherwise.
_TERM = "xterm-256color"
#: What passwd names for those who shall not log in. They have come in by another door.
_NO_SHELLS = frozenset({"nologin", "false", "true"})
_OTHERWISE = ("bash", "sh")


def shell_environment(params: SpawnTerminalParams) -> dict[str, str]:
    """Make the environment of a shell: what is allowed, and what it is given."""
    return program_environment({"TERM": _TERM} | params.env)


def choose_shell(params: SpawnTerminalParams, environment: dict[str, str]) -> str:
    """Give the path of the shell that was asked for, else of the person's own, else of one."""
    path = environment.get("PATH")
    if params.shell is not None:
        return _named(params.shell, path)
    candidates = (_login_shell(), *(shutil.which(name, path=path) for name in _OTHERWISE))
    for found in candidates:
        if found is not None:
            return found
    raise HandlerFailed(
        f"there is neither a login shell nor {' nor '.join(_OTHERWISE)} here",
        hint="Name a shell that is installed where the session runs.",
    )


def _named(shell: str, path: str | None) -> str:
    try:
        found = shutil.which(shell, path=path)
    except ValueError:  # a zero byte
        found = None
    if found is None:
        raise InvalidParams(
            f"params.shell: {quoted(shell)} is no program that can be run here",
            hint="Name one by its path, or none for the user's own.",
        )
    # A path with folders is one of this process, which need not be where the shell will be.
    return str(Path(found).absolute())


def _login_shell() -> str | None:
    try:
        shell = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        return None
    if Path(shell).name in _NO_SHELLS:
        return None
    return shutil.which(shell) if Path(shell).is_absolute() else None
