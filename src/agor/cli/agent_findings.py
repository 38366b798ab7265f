"""What `agor agent check` finds out: does each agent start, has it a key, who can run it?

It changes nothing. What can be tried is tried: somebody can run a program if they have run it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agor.catalogue import CATALOGUE, KnownAgent
from agor.cli.agents_folder import configured_folder
from agor.client import Client
from agor.config.reading import load
from agor.daemon.pool.doctor import Finding
from agor.environments import errands
from agor.environments.identity import UnixIdentity
from agor.errors import AgorError
from agor.home import Home
from agor.installing.folder import AgentsFolder
from agor.installing.looking import Look, look
from agor.installing.node import GET_NODE, why_not
from agor.installing.trying import read_answer, try_program

_TIMEOUT = 60.0
_MOST_OUTPUT = 64 * 1024
#: A folder that everybody can reach, for advice.
_FOR_ALL = "/opt/agor/agents"


@dataclass(frozen=True, slots=True)
class _Known:
    """What the daemon tells; nothing, if there is none."""

    #: The names of keys, each with the agents that alone may have it.
    keys: dict[str, tuple[str, ...]] | None
    unix_users: tuple[str, ...] = ()


def examine(
    folder: AgentsFolder, wanted: Sequence[KnownAgent], unix_users: Sequence[str]
) -> Iterator[Finding]:
    """Look at agents; each finding comes as soon as it is there."""
    looks = [look(agent, folder) for agent in wanted or CATALOGUE.values()]
    if not wanted and all(found.path is None for found in looks):
        to_do = "\n".join(f"agor agent install {name}" for name in CATALOGUE)
        yield Finding("agents", "problem", "none is installed", to_do)
        return
    known = asyncio.run(_ask_the_daemon())
    users = dict.fromkeys((*unix_users, *_configured_users(known)))
    for found in looks:
        yield check_program(found, needed=bool(wanted))
        if found.path is not None:
            yield check_key(found.agent, known)
            yield from (check_as(user, found, folder) for user in users)


def examine_as(unix_users: Sequence[str]) -> Iterator[Finding]:
    """Look only at who can run what is installed."""
    folder = configured_folder()
    for agent in CATALOGUE.values():
        found = look(agent, folder)
        if found.path is not None:
            yield from (check_as(user, found, folder) for user in unix_users)


def check_program(found: Look, *, needed: bool) -> Finding:
    """Is it there, new enough, and does it start?"""
    name, again = found.agent.name, f"agor agent install {found.agent.name}"
    if found.path is None:
        return Finding(name, "problem" if needed else "warning", "not installed", again)
    oldest = getattr(found.agent.package, "node", None)
    if why := why_not(oldest):
        return Finding(name, "problem", why, GET_NODE)
    tried = try_program(found.path)
    if tried.why is not None:
        return Finding(name, "problem", f"{found.path} {tried.why}", again)
    if not found.as_pinned:
        wanted = found.agent.package.version
        what = f"{found.version or 'of an unknown version'}; agor was tested with {wanted}"
        return Finding(name, "problem", what, again)
    return Finding(name, "ok", f"{found.version}, {found.path}")


def check_key(agent: KnownAgent, known: _Known) -> Finding:
    """Is a key kept that it could use?"""
    name = f"{agent.name} key"
    if known.keys is None:
        what = "not known, since the daemon does not run"
        return Finding(name, "warning", what, "agor daemon start")
    usable = [key for key, only in known.keys.items() if not only or agent.name in only]
    usable = [key for key in usable if agent.any_key or key in agent.keys]
    if not usable:
        return Finding(name, "problem", "none is kept", f"agor credential set {agent.keys[0]}")
    return Finding(name, "ok", ", ".join(sorted(usable)))


def check_as(user: str, found: Look, folder: AgentsFolder) -> Finding:
    """Can this Unix user run it?"""
    name = f"{found.agent.name} as {user}"
    assert found.path is not None, "it was looked for before"
    try:
        why = asyncio.run(_try_as(UnixIdentity.of(user), found.path))
    except AgorError as error:
        return Finding(name, "problem", error.message, error.hint)
    if why is None:
        return Finding(name, "ok", f"{user} can run it")
    what = f"{user} cannot run {found.path}: {why}"
    return Finding(name, "problem", what, _open_it_up(found, folder, user))


def _open_it_up(found: Look, folder: AgentsFolder, user: str) -> str:
    if not found.ours or not found.path or folder.path not in found.path.parents:
        return f"{user} must be able to read and run it. Are all folders above open to others?"
    if Home.find().folder not in folder.path.parents:
        return f"{folder.path} and all folders above must be open to others: chmod a+rx"
    return (
        f"agor config set execution.agents_folder {_FOR_ALL}\n"
        f"agor agent install {found.agent.name}\n"
        "agor daemon restart"
    )


async def _try_as(identity: UnixIdentity, program: Path) -> str | None:
    ran = await errands.run(
        identity, [str(program), "--version"],
        cwd="/", env={}, timeout=_TIMEOUT, max_output=_MOST_OUTPUT,
    )  # fmt: skip
    if ran.cut == "time":
        return f"it did not tell its version in {_TIMEOUT:g} s"
    tried = read_answer(
        ran.exit_code, ran.stdout.decode(errors="replace"), ran.stderr.decode(errors="replace")
    )
    return tried.why


async def _ask_the_daemon() -> _Known:
    try:
        async with Client.local() as client:
            keys = {each.name: tuple(each.agents or ()) for each in await client.credentials.list()}
            users = [user.unix_username async for user in client.users.list()]
    except AgorError:
        return _Known(None)
    return _Known(keys, tuple(name for name in users if name is not None))


def _configured_users(known: _Known) -> list[str]:
    """Name all whom agents are run as."""
    execution = load(Home.find().folder).execution
    if not execution.run_as_unix_user:
        return []
    default = execution.executor_unix_user
    return [*known.unix_users, *([default] if default else [])]
