"""Where Claude Code is: the SDK brings its program along."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from agor.agents.environment import find_program
from agor.errors import AgentMissing

SDK = "claude_agent_sdk"
WHY_NOT = "claude-agent-sdk is not installed"
_HINT = "Install it with `agor agent install claude-code`."


def find() -> Path | None:
    """Find the program: that of the SDK, else one that is installed by itself."""
    folder = _folder_of_sdk()
    if folder is None:
        return None
    bundled = folder / "_bundled" / "claude"
    return bundled if bundled.is_file() else find_program("claude")


def need() -> Path:
    """Find the program, or say how to get it."""
    found = find()
    if found is None:
        raise AgentMissing(f"the agent claude-code cannot be used: {WHY_NOT}", hint=_HINT)
    return found


def version_of(program: Path) -> str | None:
    """Tell its version, as the SDK wrote it down beside the program."""
    try:
        return program.with_name("claude.version").read_text().strip()
    except OSError:
        return None


def _folder_of_sdk() -> Path | None:
    # A look at folders; nothing is imported.
    spec = find_spec(SDK)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent
