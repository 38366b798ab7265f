"""Gemini CLI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.agents.subjects.base import Step, Subject


def _write(path: Path, text: str) -> Step:
    return {"tool": {"name": "write_file", "input": {"file_path": str(path), "content": text}}}


def _run(command: str) -> Step:
    return {"tool": {"name": "run_shell_command", "input": {"command": command}}}


def _call_mcp(server: str, tool: str, tool_input: dict[str, Any]) -> Step:
    return {"tool": {"name": f"mcp_{server}_{tool}", "input": tool_input}}


GEMINI = Subject(
    agentic_tool="gemini",
    credential="GEMINI_API_KEY",
    model="gemini-2.5-flash",
    other_model="gemini-2.5-pro",
    write=_write,
    write_tool="write_file",
    run=_run,
    run_tool="run_shell_command",
    written_path=lambda tool_input: str(tool_input["file_path"]),
    call_mcp=_call_mcp,
    tells_reason=False,
    keeps_denied_input=False,
    program="gemini --acp",
)
