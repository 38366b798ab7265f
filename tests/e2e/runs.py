"""`agor run` with the scripted agent, in a folder and in a terminal."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.people_commands import Agor
from tests.e2e.terminal import Terminal, terminal
from tests.integration.processes import PATIENCE

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


def ask(agor: Agor, path: str, body: Any = None) -> Any:
    """Ask the daemon itself: quicker than a command. With a body, it is a POST."""
    headers = {"authorization": f"Bearer {(agor.home / 'token').read_text().strip()}"}
    answer = httpx.request(
        "GET" if body is None else "POST", f"{agor.url}{path}", json=body, headers=headers,
        trust_env=False, timeout=PATIENCE,
    )  # fmt: skip
    assert answer.is_success, answer.text
    return answer.json()


def begin(agor: Agor, folder: Path, prompt: str) -> str:
    """Begin a session with the scripted agent; gives its id."""
    new = {"agentic_tool": "scripted", "workspace": str(folder), "title": prompt[:60]}
    session_id: str = ask(agor, "/sessions", new)["session_id"]
    ask(agor, f"/sessions/{session_id}/prompt", {"prompt": prompt})
    return session_id


def sessions(agor: Agor, folder: Path) -> list[dict[str, Any]]:
    """The sessions of a folder, the newest first."""
    listed = ask(agor, "/sessions?limit=200")["items"]
    return [each for each in listed if each["workspace"] == str(folder)]


def tasks(agor: Agor, folder: Path) -> list[dict[str, Any]]:
    """The tasks of the last session of a folder, the newest first."""
    session_id = sessions(agor, folder)[0]["session_id"]
    found: list[dict[str, Any]] = ask(agor, f"/sessions/{session_id}/tasks")["items"]
    return found


def asked(agor: Agor, folder: Path) -> str:
    """The one request that waits in the last session of a folder."""
    session_id = sessions(agor, folder)[0]["session_id"]
    pending = ask(agor, "/permissions?status=pending")["items"]
    (only,) = [each for each in pending if each["session_id"] == session_id]
    permission_id: str = only["permission_id"]
    return permission_id


def feed(agor: Agor, session_id: str) -> Generator[dict[str, Any], None, None]:
    """The events of a session, from the first on, as they come."""
    headers = {"authorization": f"Bearer {(agor.home / 'token').read_text().strip()}"}
    url = f"{agor.url}/sessions/{session_id}/events?after=0"
    with httpx.stream("GET", url, headers=headers, trust_env=False, timeout=PATIENCE) as answer:
        for line in answer.iter_lines():
            if line.startswith("data:"):
                yield json.loads(line.removeprefix("data:"))
