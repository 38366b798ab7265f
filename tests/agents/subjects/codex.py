"""Codex, as the suite must know it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.agents.subjects.base import Step, Subject


def _write(path: Path, text: str) -> Step:
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    patch = f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"
    return {"tool": {"name": "apply_patch", "input": patch}}


def _run(command: str) -> Step:
    return {"tool": {"name": "exec_command", "input": {"cmd": command}}}


def _written_path(tool_input: dict[str, Any]) -> str:
    (change,) = tool_input["changes"]
    return str(change["path"])


def _call_mcp(server: str, tool: str, tool_input: dict[str, Any]) -> Step:
    return {"tool": {"name": tool, "namespace": f"mcp__{server}", "input": tool_input}}


CODEX = Subject(
    agentic_tool="codex",
    credential="OPENAI_API_KEY",
    base_path="/v1",
    model="gpt-5.5",
    other_model="gpt-6.1-sol",
    write=_write,
    write_tool="fileChange",
    run=_run,
    run_tool="commandExecution",
    written_path=_written_path,
    call_mcp=_call_mcp,
    key_in_environment=False,
    ends_failed_turns=False,
    program="app-server",
)
