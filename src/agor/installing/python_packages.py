"""Agents that come as Python packages, into the environment that agor itself is in."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import shlex
import sys
from pathlib import Path

from agor.catalogue import PythonPackage
from agor.errors import InstallFailed
from agor.installing.command import run


def installed_version(package: PythonPackage) -> str | None:
    """Tell which version is there, if any."""
    importlib.invalidate_caches()
    try:
        return importlib.metadata.version(package.name)
    except importlib.metadata.PackageNotFoundError:
        return None


def program_of(package: PythonPackage) -> Path | None:
    """Find its program, without importing any of it."""
    found = importlib.util.find_spec(package.module)
    for folder in (found and found.submodule_search_locations) or ():
        program = Path(folder) / package.program
        if os.access(program, os.X_OK):
            return program
    return None


def install(package: PythonPackage, *, agent: str, held: int) -> None:
    """Install it with pip."""
    wanted = f"{package.name}=={package.version}"
    if importlib.util.find_spec("pip") is None:
        by_uv = shlex.join(["uv", "pip", "install", "--python", sys.executable, wanted])
        raise InstallFailed(
            f"cannot install {agent}: there is no pip in {sys.prefix}",
            hint=f"Use what made this environment; for example: {by_uv}",
        )
    options = ("--no-input", "--quiet", "--retries=2")
    command = [sys.executable, "-m", "pip", "install", *options, wanted]
    # Beside agor and nowhere else: pip would fall back to a folder of this user, where executors
    # of others do not look.
    env = os.environ | {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = run(command, cwd=Path(sys.prefix), env=env, held=held, agent=agent)
    if done.exit_code != 0:
        said = done.errors or done.said
        what = f"pip failed: {_last_error(said)}"
        if "connection broken" in said:
            # pip only warns of that, and then says that there is no such package.
            what = f"the Python package index cannot be reached ({what})"
        raise InstallFailed(
            f"cannot install {agent}: {what}",
            hint=f"Try it by hand: {shlex.join([sys.executable, '-m', 'pip', 'install', wanted])}",
        )


def _last_error(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.upper().startswith("ERROR")]
    return (errors or lines or ["it did not say why"])[-1][:400]
