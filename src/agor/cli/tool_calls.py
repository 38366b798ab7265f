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


class Tool(NamedTuple):
    """A kind of tool: what it is about, and which members hold a file's old and new text."""

    subject: str
    old: str | None = None
    new: str | None = None


class Change(NamedTuple):
    """What is done to a file: old text and new text, or a difference that somebody else made."""

    path: str
    old: str = ""
    new: str = ""
    diff: str | None = None


TOOLS = {
    # Claude
    "Bash": Tool("command"),
    "Edit": Tool("file_path", "old_string", "new_string"),
    "MultiEdit": Tool("file_path", "old_string", "new_string"),
    "Write": Tool("file_path", new="content"),
    "NotebookEdit": Tool("notebook_path", new="new_source"),
    "Read": Tool("file_path"),
    "Grep": Tool("pattern"),
    "Glob": Tool("pattern"),
    "WebFetch": Tool("url"),
    "WebSearch": Tool("query"),
    "Task": Tool("description"),
    "Agent": Tool("description"),
    # Codex; its changes are under `changes`
    "commandExecution": Tool("command"),
    "fileChange": Tool("changes"),
    # Gemini
    "run_shell_command": Tool("command"),
    "write_file": Tool("file_path", new="content"),
    "replace": Tool("file_path", "old_string", "new_string"),
    "read_file": Tool("file_path"),
    # OpenCode
    "bash": Tool("command"),
    "write": Tool("filePath", new="content"),
    "edit": Tool("filePath", "oldString", "newString"),
    "read": Tool("filePath"),
    "grep": Tool("pattern"),
    "glob": Tool("pattern"),
    "task": Tool("description"),
    # the scripted agent
    "run": Tool("command"),
}
#: For all other tools.
_TELLING = (
    "command", "file_path", "filePath", "path", "url", "query", "pattern", "description", "title",
)  # fmt: skip
#: Under these names an agent tells of several changes at once.
_LISTS = ("changes", "edits")


def subject_of(name: str, tool_input: dict[str, Any]) -> str | None:
    """Tell which member of the input says what the call is about, if one does."""
    known = TOOLS.get(name)
    members = _TELLING if known is None else (known.subject, *_TELLING)
    return next((member for member in members if tool_input.get(member)), None)


def brief(name: str, tool_input: dict[str, Any]) -> str:
    """Put what matters of a call on one line."""
    changes = list(changes_of(name, tool_input))
    member = subject_of(name, tool_input)
    if member in _LISTS and changes:
        words = " ".join(change.path for change in changes)
    else:
        words = " ".join(map(_words, tool_input.values())) if member is None else _words(
            tool_input[member]
        )  # fmt: skip
    first, *rest = printable(words).strip().splitlines() or [""]
    return first[:_LONGEST_LINE] + ("…" if rest or len(first) > _LONGEST_LINE else "")


def details(name: str, tool_input: dict[str, Any]) -> Iterator[str]:
    """Tell all of a call that `changes_of` does not, line by line: who decides has to see it."""
    tool = TOOLS.get(name, Tool(""))
    changed = list(changes_of(name, tool_input))
    hidden = {tool.old, tool.new, *_LISTS} if changed else set()
    for member, value in tool_input.items():
        if member in hidden:
            continue
        first, *rest = printable(_words(value)).split("\n")
        yield f"{member}: {first}"
        yield from (f"  {line}" for line in rest)


def changes_of(name: str, tool_input: dict[str, Any]) -> Iterator[Change]:
    """Tell what a call would change in files, as far as its input says so."""
    tool = TOOLS.get(name)
    if tool is not None and tool.new is not None and tool.new in tool_input:
        path, old = tool_input.get(tool.subject), tool_input.get(tool.old or "")
        yield Change(_words(path), _words(old), _words(tool_input[tool.new]))
    for member in _LISTS:
        yield from _listed(tool_input.get(member), tool_input, tool)


def _listed(found: Any, around: dict[str, Any], tool: Tool | None) -> Iterator[Change]:
    """Read several changes: a list of them, or one by each path."""
    if isinstance(found, dict):
        found = [{"path": path, **change} for path, change in found.items() if _is_object(change)]
    for each in found if isinstance(found, list) else ():
        if not _is_object(each):
            continue
        path = each.get("path") or (around.get(tool.subject) if tool else None)
        diff = each.get("diff") or each.get("unified_diff")
        if diff:
            yield Change(_words(path), diff=_words(diff))
        else:
            old = each.get("old_string") or each.get("oldText")
            new = each.get("new_string") or each.get("newText") or each.get("content")
            yield Change(_words(path), _words(old), _words(new))


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
    return json.dumps(value, ensure_ascii=False)
