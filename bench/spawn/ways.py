"""The ways to an executor that can be tried here, and why the others cannot.

Neighbours in this order are neighbours in time: those that the goals compare stand together.
"""

import atexit
import functools
import os
import pwd
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.readable_installation import readable_installation

from bench.install import (
    INSTALLED,
    PEERS,
    UnavailableError,
    compiled,
    node_modules,
    peers_python,
    tool,
)
from bench.spawn.cold import Cold
from bench.spawn.crowd import EVERY_MS
from bench.spawn.launched import UNDER_TEST, Spec

SPAWN = Path(__file__).parent
SDK = PEERS / "sdk"
SDK_INSTALLED = INSTALLED / "sdk"

FORK = "launcher_fork"
PROTOTYPE = "fork_prototype"
SAME_USER = "launcher_fork_same_user"
OTHER_USER = "launcher_fork_other_user"
SPARE = "spare"
POOL = "pool_start"
POOL_SPARE = "pool_spare"
C = "c"
PYTHON_SDK = "python_sdk"
NODE = "node"
TSX_SDK = "npx_tsx_sdk"

NOBODY = "nobody"


@dataclass
class Lineup:
    """What can be started, the starter of the cold ones, and the reasons for what is left out."""

    starter: str = ""
    cold: dict[str, Cold] = field(default_factory=dict)
    launchers: dict[str, Spec] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def _c() -> Cold:
    return Cold((compiled(SPAWN / "tiny.c"),))


def _agor_executor() -> Cold:
    return Cold((sys.executable, "-P", str(UNDER_TEST), "--listen-fd", "0"))


def _python() -> Cold:
    return Cold((sys.executable, str(PEERS / "cold_python.py")))


def _python_sdk() -> Cold:
    return Cold((_sdk_python(), str(PEERS / "cold_python.py"), "--sdk"))


def _node() -> Cold:
    # The pace matters to the crowd only.
    return Cold((tool("node"), str(_node_script("mjs")), "--every-ms", str(EVERY_MS)))


def _node_sdk() -> Cold:
    return Cold((tool("node"), str(_node_script("mjs")), "--sdk"))


def _npx_tsx_sdk() -> Cold:
    script = _node_script("mts")
    return Cold((tool("npx"), "tsx", str(script), "--sdk"), folder=script.parent)


def _node_script(ending: str) -> Path:
    """The script beside the packages it imports: modules are looked for from where it lies."""
    script = node_modules(SDK, SDK_INSTALLED / "node").parent / f"cold_node.{ending}"
    shutil.copy(PEERS / "cold_node.mts", script)
    return script


def _sdk_python() -> str:
    return peers_python(SDK, SDK_INSTALLED / "python")


def _prototype() -> Spec:
    return Spec(command=(sys.executable, "-P", str(PEERS / "fork_prototype.py")))


def _other_user() -> Spec:
    """A launcher of a user that can be no more than itself."""
    if os.geteuid() != 0:
        raise UnavailableError("only root can start a launcher as another user")
    try:
        uid = pwd.getpwnam(NOBODY).pw_uid
    except KeyError:
        raise UnavailableError(f"there is no user {NOBODY}") from None
    return Spec(command=_readable(), user=uid)


def _same_user() -> Spec:
    """The same, as whoever we are."""
    if os.geteuid() != 0:
        raise UnavailableError("there is no other user to compare with")
    return Spec(command=_readable())


@functools.cache
def _readable() -> tuple[str, ...]:
    """Install agor where everybody can read it, until the end of this process."""
    stack = ExitStack()
    atexit.register(stack.close)
    try:
        folder = stack.enter_context(readable_installation())
    except (OSError, AssertionError) as error:
        raise UnavailableError(f"agor cannot be installed for everybody: {error}") from None
    script = Path(shutil.copy(UNDER_TEST, folder))
    script.chmod(0o644)
    return str(folder / "python"), "-P", str(script)


COLD: dict[str, Callable[[], Cold]] = {
    C: _c,
    TSX_SDK: _npx_tsx_sdk,
    "agor_executor_cold": _agor_executor,
    "python": _python,
    PYTHON_SDK: _python_sdk,
    NODE: _node,
    "node_sdk": _node_sdk,
}
LAUNCHERS: dict[str, Callable[[], Spec]] = {
    PROTOTYPE: _prototype,
    FORK: Spec,
    SAME_USER: _same_user,
    OTHER_USER: _other_user,
}


def line_up() -> Lineup:
    """Install what is missing and say what can be started."""
    lineup = Lineup()
    for name, launcher in LAUNCHERS.items():
        try:
            lineup.launchers[name] = launcher()
        except UnavailableError as reason:
            lineup.skipped[name] = str(reason)
    try:
        lineup.starter = compiled(SPAWN / "start.c")
    except UnavailableError as reason:
        lineup.skipped.update(dict.fromkeys(COLD, f"no starter: {reason}"))
        return lineup
    for name, cold in COLD.items():
        try:
            lineup.cold[name] = cold()
        except UnavailableError as reason:
            lineup.skipped[name] = str(reason)
    return lineup
