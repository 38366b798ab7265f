"""What an agent's program gets to see: a short list of variables, and programs where they are.

An executor of the pool has a clean environment already. One that was started by hand, or inside the
daemon, has whatever its starter had, and nothing of that is for the agent.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from agor.catalogue import AGENTS_FOLDER
from agor.errors import AgentMissing

_KEPT = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TERM", "TMPDIR"}
)  # fmt: skip


def program_environment(more: Mapping[str, str] = {}) -> dict[str, str]:
    """Make the environment of an agent's program: what is allowed, and what it is given."""
    kept = {
        name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")
    }
    return kept | dict(more)


def find_program(name: str) -> Path | None:
    """Find an agent's program: where agor installs them, else on the path.

    `npm install --prefix` puts programs into that folder too, for those who install by hand.
    """
    if folder := os.environ.get(AGENTS_FOLDER):
        for programs in ("bin", "node_modules/.bin"):
            installed = Path(folder) / programs / name
            if os.access(installed, os.X_OK):
                return installed
    found = shutil.which(name)
    return None if found is None else Path(found)


def need_program(name: str, agent: str) -> Path:
    """Find an agent's program, or say how to get it."""
    found = find_program(name)
    if found is None:
        raise AgentMissing(
            f"the agent {agent} is not installed: there is no program {name!r} here",
            hint=f"Install it with `agor agent install {agent}`.",
        )
    return found
