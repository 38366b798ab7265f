"""Node.js and npm, as they are on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from agor.errors import InstallFailed
from agor.installing.trying import numbers, try_program

#: npm itself wants that much, and reads our lock files from there on.
OLDEST = 16
#: What we tell people to get: enough for every agent.
_WANTED = 20
GET_NODE = (
    f"Install Node.js {_WANTED} or newer with npm; on Debian and Ubuntu: apt-get install nodejs npm"
)


def node_version() -> str | None:
    """Tell the version of Node, if it is there and starts."""
    node = shutil.which("node")
    return None if node is None else try_program(Path(node)).version


def why_not(oldest: int | None) -> str | None:
    """Say what is wrong with the Node of this machine for a program that needs one."""
    if oldest is None:
        return None
    found = node_version()
    if found is None:
        return f"it needs Node.js {oldest} or newer, and there is none on the path"
    if numbers(found)[0] < oldest:
        return f"it needs Node.js {oldest} or newer, and this is {found}"
    return None


def need_npm(agent: str, oldest: int | None) -> str:
    """Find npm, or say how to get it."""
    if why := why_not(max(oldest or 0, OLDEST)):
        raise InstallFailed(f"cannot install {agent}: {why}", hint=GET_NODE)
    npm = shutil.which("npm")
    if npm is None:
        raise InstallFailed(f"cannot install {agent}: there is no npm on the path", hint=GET_NODE)
    return npm
