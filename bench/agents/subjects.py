"""The agents of this group: what each must be told, and why some cannot be tried here."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agor.catalogue import AGENTS_FOLDER
from bench.install import BENCH, INSTALL_SECONDS, UnavailableError

#: Where `make test` has them, too.
PROGRAMS = Path(os.environ.get(AGENTS_FOLDER) or BENCH.parent / ".agents")

Step = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """One agent."""

    name: str
    #: How the daemon calls it.
    agentic_tool: str
    credential: str
    #: What its base URL has behind the model server's.
    base_path: str
    model: str
    #: The module that drives it directly.
    driver: str
    #: How its model reads a file.
    read: Callable[[Path], Step]
    #: The mode in which nobody is asked about that: either the agent asks for other things only, or
    #: it asks and is answered by the daemon itself, as its driver answers at once.
    permission_mode: str
    #: A word of its program's command line that no other process has.
    program: str


@dataclass
class Lineup:
    """The agents that can run here, and why the others cannot."""

    subjects: list[Subject] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


CLAUDE = Subject(
    name="claude",
    agentic_tool="claude-code",
    credential="ANTHROPIC_API_KEY",
    base_path="",
    model="claude-sonnet-4-5",
    driver="bench.agents.claude_directly",
    read=lambda path: {"tool": {"name": "Read", "input": {"file_path": str(path)}}},
    permission_mode="default",
    program="--input-format",
)
CODEX = Subject(
    name="codex",
    agentic_tool="codex",
    credential="OPENAI_API_KEY",
    base_path="/v1",
    model="gpt-5.5",
    driver="bench.agents.codex_directly",
    read=lambda path: {"tool": {"name": "exec_command", "input": {"cmd": f"cat {path}"}}},
    permission_mode="bypassPermissions",
    program="app-server",
)
SUBJECTS = (CLAUDE, CODEX)


def line_up() -> Lineup:
    """Install what is missing, and say who can run."""
    lineup = Lineup()
    for subject in SUBJECTS:
        try:
            if subject is CODEX:
                _install_codex()
        except UnavailableError as reason:
            lineup.skipped[subject.name] = str(reason)
        else:
            lineup.subjects.append(subject)
    return lineup


def _install_codex() -> None:
    if any((PROGRAMS / folder / "codex").exists() for folder in ("bin", "node_modules/.bin")):
        return
    print("bench: installing codex", file=sys.stderr)
    places = {"AGOR_HOME": str(PROGRAMS), "AGOR_EXECUTION__AGENTS_FOLDER": str(PROGRAMS)}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "agor.cli.main", "agent", "install", "codex"],
            env={**os.environ, **places},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"installing codex took over {INSTALL_SECONDS} s") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise UnavailableError(f"codex could not be installed: {said[0][:200]}")
