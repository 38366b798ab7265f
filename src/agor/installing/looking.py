"""What of an agent is on this machine: a look at files, nothing is started but what is not ours."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from agor.catalogue import KnownAgent, NpmPackage
from agor.installing import node, python_packages
from agor.installing.folder import AgentsFolder
from agor.installing.trying import numbers, try_program


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """An agent, as it is here."""

    agent: KnownAgent
    #: Its program; None if there is none.
    path: Path | None = None
    version: str | None = None
    #: We have installed it; otherwise somebody has put it on the search path.
    ours: bool = False
    #: Why it cannot be used.
    why_not: str | None = None

    @property
    def as_pinned(self) -> bool:
        """Whether it is of the version that agor was tested with, or of a newer one."""
        wanted = numbers(self.agent.package.version)
        return self.version is not None and numbers(self.version) >= wanted


def look(agent: KnownAgent, folder: AgentsFolder) -> Look:
    """Look for an agent, where executors look: first in our folder, then on the path."""
    package = agent.package
    if not isinstance(package, NpmPackage):
        path, version = python_packages.program_of(package), None
        if path is not None:
            version = python_packages.installed_version(package)
        why = None if path else "not installed"
        return Look(agent=agent, path=path, version=version, ours=path is not None, why_not=why)
    why = node.why_not(package.node)
    if path := folder.program(agent.program):
        version = _recorded_version(folder, agent, package)
        return Look(agent=agent, path=path, version=version, ours=True, why_not=why)
    if path := _elsewhere(agent, folder):
        tried = try_program(path)
        return Look(agent=agent, path=path, version=tried.version, why_not=why or tried.why)
    return Look(agent=agent, why_not="not installed")


def _elsewhere(agent: KnownAgent, folder: AgentsFolder) -> Path | None:
    by_hand = folder.path / "node_modules" / ".bin" / agent.program
    if os.access(by_hand, os.X_OK):
        return by_hand
    found = shutil.which(agent.program)
    return None if found is None else Path(found)


def _recorded_version(
    folder: AgentsFolder, agent: KnownAgent, package: NpmPackage
) -> str | None:  # fmt: skip
    home = folder.home_of(agent.program)
    if home is None:
        return None
    try:
        text = (home / "node_modules" / package.name / "package.json").read_bytes()
        version = json.loads(text)["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, str) else None
