"""`agor run` with the scripted agent, in a folder and in a terminal."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.people_commands import Agor
from tests.e2e.terminal import Terminal, terminal

CHOICES = "[o]nce  [s]ession  [a]lways  [n]o: "


def asks(command: str, output: str = "done") -> dict[str, Any]:
    """A step that asks before it runs a command."""
    tool = {"name": "Bash", "input": {"command": command}, "output": output, "ask": True}
    return {"tool": tool}


def words(*steps: dict[str, Any]) -> list[str]:
    """The words of a command that plays a script."""
    return ["run", "--agent", "scripted", json.dumps(steps)]


@contextlib.contextmanager
def at_terminal(
    agor: Agor, folder: Path, *arguments: str, env: dict[str, str] | None = None
) -> Iterator[Terminal]:
    """Have a command in a terminal; the daemon outlives it."""
    command = [str(agor.command), *arguments]
    with terminal(command, agor.mark, agor.env | (env or {}), cwd=folder, end_all=False) as running:
        yield running


def sessions(agor: Agor, folder: Path) -> list[dict[str, Any]]:
    """The sessions of a folder, the newest first."""
    listed = json.loads(agor.done("session", "list", "--json"))
    return [each for each in listed if each["workspace"] == str(folder)]


def tasks(agor: Agor, folder: Path) -> list[dict[str, Any]]:
    """The tasks of the last session of a folder, the newest first."""
    shown = json.loads(agor.done("session", "show", "--json", cwd=folder))
    found: list[dict[str, Any]] = shown["tasks"]
    return found
