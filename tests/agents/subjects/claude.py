"""Claude Code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.agents.subjects.base import Step, Subject


def _write(path: Path, text: str) -> Step:
    return {"tool": {"name": "Write", "input": {"file_path": str(path), "content": text}}}


def _run(command: str) -> Step:
    return {"tool": {"name": "Bash", "input": {"command": command}}}


def _call_mcp(server: str, tool: str, tool_input: dict[str, Any]) -> Step:
    return {"tool": {"name": f"mcp__{server}__{tool}", "input": tool_input}}


CLAUDE = Subject(
    agentic_tool="claude-code",
    credential="ANTHROPIC_API_KEY",
    model="claude-sonnet-4-5",
    other_model="claude-opus-4-5",
    write=_write,
    write_tool="Write",
    run=_run,
    run_tool="Bash",
    written_path=lambda tool_input: str(tool_input["file_path"]),
    call_mcp=_call_mcp,
    rewrite=lambda tool_input, text: tool_input | {"content": text},
    tells_cost=True,
    key_in_environment=False,
    # It tries again ten times, over some minutes.
    patient_with=frozenset({"overloaded", "rate_limit", "server_error"}),
    program="_bundled/claude",
)
