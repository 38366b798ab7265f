"""A tool call of an ACP agent, put together from the updates that tell of it. Pure.

Agents differ in what they tell: some give the input as the model gave it, some only a title, the
files concerned, and a diff. What is missing is made up from what there is, always in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acp.schema import ToolCall, ToolCallUpdate

#: Characters of a name at most, as it is kept in a database.
_LONGEST_NAME = 200
#: Characters of a tool's input that are told: an event must stay below the cap of the wire.
_LARGEST_INPUT = 4 * 1024 * 1024
ENDED = frozenset(("completed", "failed"))
#: Kinds of tools that change nothing, whatever their input.
HARMLESS = frozenset(("read", "search", "fetch", "think"))


@dataclass
class Call:
    """One tool call, as far as it is known."""

    call_id: str
    title: str = ""
    #: The title that it began with; some agents begin with the name of the tool.
    first_title: str = ""
    kind: str | None = None
    status: str | None = None
    raw_input: Any = None
    raw_output: Any = None
    content: Sequence[Any] = ()
    locations: Sequence[Any] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    #: Somebody said no.
    denied: bool = False

    def merge(self, update: ToolCall | ToolCallUpdate) -> None:
        """Take over what an update says; what it leaves out stays as it was."""
        for name in ("title", "kind", "status", "raw_input", "raw_output", "content", "locations"):
            value = getattr(update, name)
            if value is not None:
                setattr(self, name, value)
        self.first_title = self.first_title or self.title
        self.meta |= update.field_meta or {}

    @property
    def ended(self) -> bool:
        """Whether the agent said that it is over."""
        return self.status in ENDED

    @property
    def paths(self) -> list[str]:
        """The files that it is about."""
        diffs = [part.path for part in self.content if part.type == "diff"]
        return [*diffs, *(place.path for place in self.locations)]


def plain_name(call: Call) -> str:
    """Name a tool: as its agent does in its own notes, else by its kind, else by its title."""
    for notes in call.meta.values():
        if isinstance(notes, dict) and isinstance(name := notes.get("toolName"), str) and name:
            return name[:_LONGEST_NAME]
    if call.kind not in (None, "other"):
        return str(call.kind)
    return call.title[:_LONGEST_NAME] or "tool"


def plain_input(call: Call) -> dict[str, Any]:
    """Tell the input of a tool: the model's own, else what is known of it."""
    raw = call.raw_input
    if isinstance(raw, dict) and raw:
        return bounded(raw)
    if raw not in (None, {}):
        return bounded({"input": raw})
    known: dict[str, Any] = {}
    if call.kind == "execute" and call.title:
        known["command"] = call.title
    elif call.title:
        known["title"] = call.title
    diffs = [part for part in call.content if part.type == "diff"]
    if len(diffs) == 1:
        known |= {"file_path": diffs[0].path, "content": diffs[0].new_text}
    elif call.paths:
        known["paths"] = sorted(set(call.paths))
    return bounded(known)


def bounded(tool_input: dict[str, Any]) -> dict[str, Any]:
    """Leave a giant input out, and say so."""
    size = len(json.dumps(tool_input, ensure_ascii=False))
    if size <= _LARGEST_INPUT:
        return tool_input
    return {"left_out": f"an input of {size} characters"}


def plain_result(call: Call) -> str:
    """Tell what came out: in plain text if the agent gives it, else as it shows it to people."""
    raw = call.raw_output
    if isinstance(raw, str) and raw:
        return raw
    if isinstance(raw, dict):
        for name in ("output", "error", "formatted_output", "stdout"):
            if isinstance(text := raw.get(name), str) and text:
                return text
    if shown := "\n".join(text for part in call.content if (text := _shown(part))):
        return shown
    return "" if raw in (None, "", {}) else json.dumps(raw, ensure_ascii=False)


def _shown(part: Any) -> str:
    if part.type == "content":
        return content_text(part.content)
    if part.type == "diff":
        return f"changed {part.path}"
    return ""


def content_text(content: Any) -> str:
    """Tell a piece of content as text."""
    match content.type:
        case "text":
            return str(content.text)
        case "resource_link":
            return str(content.uri)
        case "resource":
            return str(getattr(content.resource, "text", None) or content.resource.uri)
        case _:
            return f"[{content.type} {content.mime_type}]"
