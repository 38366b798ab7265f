"""How Gemini CLI's tool calls are told. Pure.

Over ACP it tells neither the name of a tool nor its input, and of results only what its own screen
would show. The name is in the call's id; input and result are in its record once the call is over,
see `records`. Until then the input is put together from what a person is shown.
"""

from __future__ import annotations

from typing import Any

from agor.agents.acp.blocks import Naming
from agor.agents.acp.calls import Call, bounded, plain_name, plain_result

#: What it says into the text of the model when its mode is changed.
_MODE_UPDATE = "[MODE_UPDATE] "


def tool_name(call: Call) -> str:
    """Find the name of the tool in the id of the call: `write_file__x1y2`."""
    return name_in(call.call_id) or plain_name(call)


def name_in(call_id: str) -> str:
    """Find the name in an id. Names of MCP tools may have the mark in them, others not."""
    mcp = call_id.startswith("mcp_")
    name, mark, _ = call_id.rpartition("__") if mcp else call_id.partition("__")
    return name if mark else ""


def tool_input(call: Call) -> dict[str, Any]:
    """Tell the input: the model's own once it is known, else what is shown of it."""
    if isinstance(call.raw_input, dict):
        return bounded(call.raw_input)
    shown = [part.content.text for part in call.content if _is_text(part)]
    diffs = [part for part in call.content if part.type == "diff"]
    if diffs:
        return bounded({"file_path": diffs[0].path, "content": diffs[0].new_text})
    known: dict[str, Any] = {}
    if call.title:
        known["command" if call.kind == "execute" else "title"] = call.title
    if shown and not call.ended:
        known["explanation"] = "\n".join(shown)
    if call.paths:
        known["paths"] = sorted(set(call.paths))
    return bounded(known)


def result(call: Call) -> str:
    """Tell the result as the model got it, else as it is shown."""
    if isinstance(call.raw_output, dict):
        return response_text(call.raw_output)
    return plain_result(call)


def response_text(response: dict[str, Any]) -> str:
    """Read what a function answered."""
    for name in ("output", "error"):
        if isinstance(text := response.get(name), str):
            return text
    return str(response)


def denied_text(name: str) -> str:
    """Tell what the model is told when somebody says no."""
    return f'Tool "{name}" was canceled by the user.'


def thought(subject: str, description: str) -> str:
    """Tell a thought, which has a subject sometimes."""
    return f"**{subject}**\n{description}" if subject else description


def _told_thought(text: str) -> str:
    return text.removeprefix("****\n")


def _told_message(text: str) -> str:
    return "" if text.startswith(_MODE_UPDATE) else text


def _is_text(part: Any) -> bool:
    return bool(part.type == "content" and part.content.type == "text")


NAMING = Naming(
    name=tool_name,
    input=tool_input,
    result=result,
    thought=_told_thought,
    message=_told_message,
)
