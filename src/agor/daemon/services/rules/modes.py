"""What a task's permission mode decides by itself. Pure.

`acceptEdits` approves the tools that change files, in the workspace and nowhere else; what they are
called depends on the agent, and so does where in the input the path is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agor.daemon.services.rules import paths
from agor.daemon.services.rules.matching import Question

#: The tools that change files, each with the member of its input that names the file, or has the
#: changes of several files.
EDITING_TOOLS: Mapping[str, str] = {
    # Claude
    "Edit": "file_path",
    "Write": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
    # Codex
    "fileChange": "changes",
    "apply_patch": "changes",
    # Gemini
    "replace": "file_path",
    "write_file": "file_path",
    # OpenCode
    "edit": "filePath",
    "write": "filePath",
}


def mode_decides(question: Question) -> bool:
    """Tell whether the mode says yes. It never says no: then a rule or a person is asked."""
    if question.mode == "bypassPermissions":
        return True
    return question.mode == "acceptEdits" and _edits_inside(question)


def keeps_rules_out(question: Question) -> bool:
    """Tell whether a person is to be asked whatever rules allow: who only plans changes nothing."""
    return question.mode == "plan" and question.tool in EDITING_TOOLS


def _edits_inside(question: Question) -> bool:
    member = EDITING_TOOLS.get(question.tool)
    if member is None or question.widening:
        return False
    value = question.input.get(member)
    named = _paths_of_changes(value) if member == "changes" else [value]
    return bool(named) and all(_is_inside(path, question.workspace) for path in named)


def _is_inside(path: object, workspace: str) -> bool:
    found = paths.plain(path, workspace) if isinstance(path, str) else None
    inside = None if found is None else paths.below(found, workspace)
    return inside is not None and not paths.is_guarded(inside)


def _paths_of_changes(changes: Any) -> list[object]:
    """List the files that changes name; what is not understood is no path, and so not inside."""
    if isinstance(changes, dict):
        return [path for name, change in changes.items() for path in (name, *_moved(change))]
    if not isinstance(changes, list):
        return [None]
    found: list[object] = []
    for change in changes:
        found += [change.get("path"), *_moved(change)] if isinstance(change, dict) else [None]
    return found


def _moved(change: Any) -> list[object]:
    """Find where else a change puts a file, however deep it says so."""
    if not isinstance(change, dict):
        return []
    found = [value for name, value in change.items() if name == "move_path" and value is not None]
    return [*found, *(path for each in change.values() for path in _moved(each))]
