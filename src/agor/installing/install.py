"""Installs one agent: all of it or nothing, and never in place of one that works before it does."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path

from agor.catalogue import KnownAgent, NpmPackage
from agor.errors import InstallFailed
from agor.installing import npm, python_packages
from agor.installing.folder import AgentsFolder
from agor.installing.looking import Look, look
from agor.installing.node import need_npm
from agor.installing.trying import try_program


def install(
    agent: KnownAgent,
    folder: AgentsFolder,
    *,
    lock: bytes | None = None,
    on_wait: Callable[[], None] = lambda: None,
    on_begin: Callable[[], None] = lambda: None,
) -> Look:
    """Install an agent, unless it is there and starts. `lock` is another lock file than ours."""
    with folder.locked(on_wait) as held:
        found = look(agent, folder)
        if found.ours and found.as_pinned and found.path and try_program(found.path).why is None:
            return found
        package = agent.package
        if isinstance(package, NpmPackage):
            tool = need_npm(agent.name, package.node)
            on_begin()
            _install_from_npm(tool, agent, package, folder, lock or shipped_lock(agent), held)
        else:
            on_begin()
            python_packages.install(package, agent=agent.name, held=held)
        return look(agent, folder)


def shipped_lock(agent: KnownAgent) -> bytes:
    """Read the lock file that came with agor."""
    return (resources.files("agor.installing") / "locks" / f"{agent.name}.json").read_bytes()


def _install_from_npm(
    tool: str, agent: KnownAgent, package: NpmPackage, folder: AgentsFolder, lock: bytes, held: int
) -> None:
    with folder.new() as new:
        npm.install(tool, new, lock, agent=agent.name, held=held)
        program = _first_that_starts(agent, package, new / "node_modules")
        folder.use(agent.program, package.version, new, program)


def _first_that_starts(agent: KnownAgent, package: NpmPackage, modules: Path) -> Path:
    whys = []
    for name in package.programs:
        program = modules / name
        if not program.exists():
            continue
        tried = try_program(program)
        if tried.why is None:
            return program
        whys.append(tried.why)
    why = whys[0] if whys else "the package has no program for this kind of machine"
    raise InstallFailed(
        f"cannot install {agent.name}: {package.name} {package.version} is of no use here: {why}",
        hint="What was there before is still in use, if there was anything.",
    )
