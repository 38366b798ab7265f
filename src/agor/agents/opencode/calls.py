"""OpenCode's tool calls in our words. Pure.

A call begins with the name of its tool as its title; what OpenCode shows people comes later. Its
questions come in other words than the call, and sometimes before its input is told.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agor.agents.acp.blocks import Naming
from agor.agents.acp.calls import Call, bounded

#: Tools that only look at files, with the members of their input that say where.
_LOOKING = {
    "read": ("filePath",),
    "glob": ("path", "pattern"),
    "grep": ("path", "include"),
    "list": ("path",),
}
#: The title with which a call ends whose tool there is not.
NO_TOOL = "Invalid Tool"
#: The sub-agent that only looks.
EXPLORER = "explore"
#: Tools that change nothing but what OpenCode itself remembers.
_OWN = frozenset(("todowrite", "todoread"))
#: Lines of a patch that name a file.
_PATCHED = re.compile(
    r"^\s*\*\*\* (?:Add File|Update File|Delete File|Move to):(.*)$", re.MULTILINE
)
_TRICKS = re.compile(r"(?:^|[/{,])(?:\.\.|~)|^/|\$")


def tool_name(call: Call) -> str:
    """Name the tool of a call."""
    return call.first_title[:200] or "tool"


def tool_input(name: str, given: Any) -> dict[str, Any]:
    """Tell the input of a tool: as the model gave it, and for a patch which files it changes."""
    told = dict(given) if isinstance(given, dict) else {}
    if name == "bash":
        # Where it runs is added by OpenCode, for people; the model has another word for it.
        told.pop("cwd", None)
    if name == "apply_patch" and isinstance(patch := told.get("patchText"), str):
        told["changes"] = [{"path": path.strip()} for path in _PATCHED.findall(patch)]
    return bounded(told)


def result(call: Call) -> str:
    """Tell what the model got."""
    raw = call.raw_output if isinstance(call.raw_output, dict) else {}
    return str(raw.get("output", raw.get("error", "")))


def needs_no_word(call: Call, cwd: str) -> bool:
    """Tell whether a call only looks at files of the workspace, and at none that keep secrets."""
    name = tool_name(call)
    if name in _OWN:
        return True
    given = tool_input(name, call.raw_input)
    if name not in _LOOKING:
        return name == "task" and given.get("subagent_type") == EXPLORER
    places = [given[member] for member in _LOOKING[name] if given.get(member) is not None]
    return all(isinstance(place, str) and _is_inside(place, cwd) for place in places)


def _is_inside(place: str, cwd: str) -> bool:
    workspace = Path(cwd).resolve()
    if Path(place).is_absolute():
        inside = Path(place).resolve().is_relative_to(workspace) and ".." not in place.split("/")
    else:
        resolved = (workspace / place).resolve()
        inside = _TRICKS.search(place) is None and resolved.is_relative_to(workspace)
    name = place.rpartition("/")[2]
    return inside and not (name.startswith(".env") or name.endswith(".env"))


NAMING = Naming(
    name=tool_name,
    input=lambda call: tool_input(tool_name(call), call.raw_input),
    result=result,
    question_tells=False,
)
