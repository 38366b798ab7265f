"""Which part of a tool's input matters to a person: what it is about, and what it changes.

All that is known of the agents' tools is in one table. A tool that is not there shows the first
member that says something, whatever agent or server it comes from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from agor.cli.printable import printable

_LONGEST_LINE = 200


class Change(NamedTuple):
    """What is done to a file: old text and new text, or a difference that somebody else made."""

    path: str
    old: str = ""
    new: str = ""
    diff: str | None = None


#: By tool, the member of its input that says what a call is about.
TOOLS = {
    # Claude
    "Bash": "command",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "Write": "file_path",
    "NotebookEdit": "notebook_path",
    "Read": "file_path",
    "Grep": "pattern",
    "Glob": "pattern",
    "WebFetch": "url",
    "WebSearch": "query",
    "Task": "description",
    "Agent": "description",
    "AskUserQuestion": "questions",
    "ExitPlanMode": "plan",
    # Codex
    "commandExecution": "command",
    "fileChange": "changes",
    "webSearch": "query",
    "requestUserInput": "questions",
    # Gemini
    "run_shell_command": "command",
    "write_file": "file_path",
    "replace": "file_path",
    "read_file": "file_path",
    # OpenCode
    "bash": "command",
    "write": "filePath",
    "edit": "filePath",
    "read": "filePath",
    "grep": "pattern",
    "glob": "pattern",
    "task": "description",
    # the scripted agent
    "run": "command",
}
#: For all other tools, and where the member of the table is not there.
_TELLING = (
    "command", "file_path", "filePath", "path", "paths", "url", "query", "pattern", "description",
    "title", "prompt",
)  # fmt: skip
#: How files are changed, whatever tool it is: the members for the path, the old and the new text.
_EDITS = (
    ("file_path", "old_string", "new_string"),
    ("filePath", "oldString", "newString"),
    ("path", "oldText", "newText"),
    ("file_path", None, "content"),
    ("filePath", None, "content"),
    ("path", None, "content"),
    ("notebook_path", None, "new_source"),
)
#: Under these names an agent tells of several changes at once.
_LISTS = ("changes", "edits")


def subject_of(name: str, tool_input: dict[str, Any]) -> str | None:
    """Tell which member of the input says what the call is about, if one does."""
    members = (TOOLS.get(name, ""), *_TELLING)
    return next((member for member in members if tool_input.get(member)), None)


def brief(name: str, tool_input: dict[str, Any]) -> str:
    """Put what matters of a call on one line."""
    member = subject_of(name, tool_input)
    if member is None:
        words = " ".join(map(_words, tool_input.values()))
    elif member in _LISTS and (changes := list(changes_of(tool_input))):
        words = " ".join(change.path for change in changes)
    else:
        words = _words(tool_input[member])
    first, *rest = printable(words).strip().splitlines() or [""]
    return first[:_LONGEST_LINE] + ("…" if rest or len(first) > _LONGEST_LINE else "")


def details(tool_input: dict[str, Any]) -> Iterator[str]:
    """Tell all of a call that `changes_of` does not, line by line: who decides has to see it."""
    hidden: set[str | None] = set()
    if edit := _edit(tool_input):
        hidden |= set(edit[1:])
    if any(_listed(tool_input)):
        hidden |= set(_LISTS)
    for member, value in tool_input.items():
        if member in hidden and member in _LISTS:
            yield f"{member}: {printable(' '.join(each.path for each in _listed(tool_input)))}"
        if member in hidden:
            continue
        first, *rest = printable(_words(value)).split("\n")
        yield f"{member}: {first}"
        yield from (f"  {line}" for line in rest)


def changes_of(tool_input: dict[str, Any]) -> Iterator[Change]:
    """Tell what a call would change in files, as far as its input says so."""
    if edit := _edit(tool_input):
        path, old, new = edit
        yield Change(_words(tool_input[path]), _words(tool_input.get(old)), _words(tool_input[new]))
    yield from _listed(tool_input)


def _edit(tool_input: dict[str, Any]) -> tuple[str, str, str] | None:
    for path, old, new in _EDITS:
        if path in tool_input and new in tool_input and (old is None or old in tool_input):
            return path, old or "", new
    return None


def _listed(tool_input: dict[str, Any]) -> Iterator[Change]:
    """Read several changes: a list of them, or one by each path."""
    around = next((tool_input[name] for name, *_ in _EDITS if name in tool_input), None)
    for member in _LISTS:
        found = tool_input.get(member)
        if isinstance(found, dict):
            found = [{"path": path, **each} for path, each in found.items() if _is_object(each)]
        for each in found if isinstance(found, list) else ():
            if _is_object(each):
                yield _change(each, _words(each.get("path") or around))


def _change(told: dict[str, Any], path: str) -> Change:
    diff = told.get("diff") or told.get("unified_diff")
    kind = told.get("kind") or told.get("type")
    kind = kind.get("type") if isinstance(kind, dict) else kind
    if diff and kind in ("add", "delete"):
        # Of files that come or go all is told, and not as a difference.
        return Change(path, **{"new" if kind == "add" else "old": _words(diff)})
    if diff:
        return Change(path, diff=_words(diff))
    old, new = (
        next((told[name] for name in names if name in told), None)
        for names in (("old_string", "oldText"), ("new_string", "newText", "content"))
    )
    return Change(path, _words(old), _words(new))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _words(value: Any) -> str:
    """Write a value of JSON as a person would."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, (str, int, float)) for each in value):
        return " ".join(map(str, value))
    if isinstance(value, list) and all(_is_object(each) and "question" in each for each in value):
        return " ".join(str(each["question"]) for each in value)
    return json.dumps(value, ensure_ascii=False)
