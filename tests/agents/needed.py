"""Agents that a test needs: skipped where they cannot be had, never where they should be there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from agor.agents.acp.command import parse
from agor.agents.environment import find_program
from agor.catalogue import CATALOGUE, NpmPackage
from agor.installing.node import why_not
from agor.installing.python_packages import program_of

_ROOT = Path(__file__).parents[2]
#: Where `scripts/agents` puts them.
os.environ.setdefault("AGOR_AGENTS", str(_ROOT / ".agents"))
#: What scripts/agents asks for.
_NODE = 20


def need_agent(name: str) -> None:
    """Go on only if the program of this agent is here."""
    if _is_there(name):
        return
    why = f"{name} is not installed; scripts/agents does that"
    # There it has had all that it needs: a test that is left out then is a test that fails.
    if os.geteuid() == 0 and shutil.which("npm") and why_not(_NODE) is None:
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


def _is_there(name: str) -> bool:
    if name.startswith("acp:"):
        return find_program(parse(name).words[0]) is not None
    agent = CATALOGUE[name]
    if isinstance(agent.package, NpmPackage):
        return find_program(agent.program) is not None
    return program_of(agent.package) is not None
