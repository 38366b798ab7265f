"""Agents that a test needs: skipped where they cannot be had, never where they should be there."""

from __future__ import annotations

import os
import shutil

import pytest

from agor.agents.acp.command import parse
from agor.agents.environment import find_program
from agor.catalogue import CATALOGUE, NpmPackage
from agor.installing.python_packages import program_of


def need_agent(name: str) -> None:
    """Go on only if the program of this agent is here."""
    if _is_there(name):
        return
    why = f"{name} is not installed; scripts/agents does that"
    # There it has had all that it needs: a test that is left out then is a test that fails.
    if os.geteuid() == 0 and shutil.which("npm"):
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


def _is_there(name: str) -> bool:
    if name.startswith("acp:"):
        return find_program(parse(name).words[0]) is not None
    agent = CATALOGUE[name]
    if isinstance(agent.package, NpmPackage):
        return find_program(agent.program) is not None
    return program_of(agent.package) is not None
