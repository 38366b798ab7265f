"""OpenCode, as the suite must know it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.agents.subjects.base import Step, Subject


def _write(path: Path, text: str) -> Step:
    return {"tool": {"name": "write", "input": {"filePath": str(path), "content": text}}}


def _run(command: str) -> Step:
    return {"tool": {"name": "bash", "input": {"command": command, "description": "runs it"}}}


def _call_mcp(server: str, tool: str, tool_input: dict[str, Any]) -> Step:
    return {"tool": {"name": f"{server}_{tool}", "input": tool_input}}


OPENCODE = Subject(
    agentic_tool="opencode",
    credential="ANTHROPIC_API_KEY",
    model="anthropic/claude-sonnet-4-5",
    other_model="anthropic/claude-opus-4-5",
    write=_write,
    write_tool="write",
    run=_run,
    run_tool="bash",
    written_path=lambda tool_input: str(tool_input["filePath"]),
    call_mcp=_call_mcp,
    # What the model is told after a no are OpenCode's own words.
    tells_reason=False,
    tells_cost=True,
    key_in_environment=False,
    # It waits between its tries, longer and longer.
    patient_with=frozenset({"overloaded", "rate_limit", "server_error"}),
    ends_failed_turns=False,
    program="bin/opencode",
)
