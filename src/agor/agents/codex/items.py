"""What Codex calls an item, as a tool call of ours: its name, its input, what came of it. Pure.

Items come in two spellings: as the server tells them, and as the record keeps them. The record's
are turned into the server's first, so that both give the same blocks.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlparse

from agor.protocol.events import BlockKind

Item = Mapping[str, Any]

#: The items that are tool calls.
CALLS = frozenset({"commandExecution", "fileChange", "mcpToolCall", "webSearch", "imageView"})
#: The items that are text, with the kind of block that they are.
TEXTS: Mapping[str, BlockKind] = {"agentMessage": "text", "plan": "text", "reasoning": "thinking"}
#: Shells that a command may be wrapped in and still be called by its own words.
_SHELLS = frozenset(
    f"{folder}{name}" for folder in ("", "/bin/", "/usr/bin/") for name in ("bash", "sh", "zsh")
)
#: How Codex words it that nobody allowed the call of an MCP server's tool.
_MCP_REJECTED = "user rejected MCP tool call"


def tool_name(item: Item) -> str:
    """Name the tool of a call."""
    match item["type"]:
        case "mcpToolCall":
            return f"mcp__{item['server']}__{item['tool']}"
        case "subAgentActivity":
            return "spawnAgent"
        case kind:
            return str(kind)


def tool_input(item: Item) -> dict[str, Any]:
    """Give the input of a call."""
    match item["type"]:
        case "commandExecution":
            return {"command": plain_command(item["command"]), "cwd": item["cwd"]}
        case "fileChange":
            return {"changes": item["changes"]}
        case "mcpToolCall":
            arguments = item.get("arguments")
            return arguments if isinstance(arguments, dict) else {"arguments": arguments}
        case "webSearch":
            return {"query": item.get("query") or ""}
        case "imageView":
            return {"path": item["path"]}
        case "subAgentActivity":
            # What it was told is sealed: only models can read it.
            return {"agent": item["agentPath"]}
        case _:
            return dict(item["input"])


def is_declined(item: Item) -> bool:
    """Tell whether a call did not happen because nobody allowed it."""
    return item.get("status") == "declined" or _problem(item) == _MCP_REJECTED


def is_failed(item: Item) -> bool:
    """Tell whether a call went wrong."""
    result = item.get("result") or {}
    return item.get("status") in ("failed", "declined") or bool(
        isinstance(result, dict) and result.get("isError")
    )


def failure(item: Item) -> str | None:
    """Say in short why a call went wrong."""
    code = item.get("exitCode")
    return f"exit code {code}" if code else _problem(item)


def result_text(item: Item) -> str:
    """Give what came of a call, but for a denial."""
    match item["type"]:
        case "commandExecution":
            return item.get("aggregatedOutput") or ""
        case "fileChange" if item.get("status") == "completed":
            return "\n".join(
                f"{change['kind']['type']} {change['path']}" for change in item["changes"]
            )
        case "fileChange":
            return "the files could not be changed"
        case "mcpToolCall":
            return _problem(item) or _content_text(item.get("result") or {})
        case _:
            return ""


def text_of(item: Item) -> str:
    """Give the whole text of an item that is text."""
    if item["type"] == "reasoning":
        # The model's own words are there only where the provider shows them.
        return "\n\n".join(item.get("summary") or item.get("content") or ())
    return str(item.get("text") or "")


def plain_command(command: str) -> str:
    """Take a command out of the shell that it is run with."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if len(words) == 3 and words[0] in _SHELLS and words[1] in ("-lc", "-c"):
        return words[2]
    return command


# ── from the record ──────────────────────────────────────────────────────────────────────────


def from_record(kept: Item) -> Item | None:
    """Spell an item of the record as the server would; none for those of no interest."""
    match kept["type"]:
        case "AgentMessage":
            text = "".join(part.get("text", "") for part in kept["content"])
            return {"type": "agentMessage", "id": kept["id"], "text": text}
        case "Plan":
            return {"type": "plan", "id": kept["id"], "text": kept.get("text", "")}
        case "Reasoning":
            content = [
                part if isinstance(part, str) else part.get("text", "")
                for part in kept.get("raw_content", ())
            ]
            return {
                "type": "reasoning",
                "id": kept["id"],
                "summary": kept["summary_text"],
                "content": content,
            }
        case "CommandExecution":
            return _command_from_record(kept)
        case "FileChange":
            changes = [
                _change_from_record(path, change) for path, change in kept["changes"].items()
            ]
            return {
                "type": "fileChange",
                "id": kept["id"],
                "changes": changes,
                "status": kept.get("status"),
            }
        case "McpToolCall":
            return {**kept, "type": "mcpToolCall"}
        case "WebSearch":
            return {**kept, "type": "webSearch"}
        case "ImageView":
            return {**kept, "type": "imageView"}
        case "SubAgentActivity":
            agent = {"agentThreadId": kept["agent_thread_id"], "agentPath": kept["agent_path"]}
            return {"type": "subAgentActivity", "id": kept["id"], "kind": kept["kind"], **agent}
        case "ContextCompaction":
            return {"type": "contextCompaction", "id": kept["id"]}
    return None


def _command_from_record(kept: Item) -> Item:
    return {
        "type": "commandExecution",
        "id": kept["id"],
        "command": shlex.join(kept["command"]),
        "cwd": unquote(urlparse(kept["cwd"]).path),
        "status": kept.get("status"),
        "aggregatedOutput": kept.get("aggregated_output"),
        "exitCode": kept.get("exit_code"),
    }


def _change_from_record(path: str, change: Item) -> dict[str, Any]:
    if change["type"] != "update":
        return {"path": path, "kind": {"type": change["type"]}, "diff": change.get("content", "")}
    diff, moved = change.get("unified_diff", ""), change.get("move_path")
    if moved:
        diff += f"\n\nMoved to: {moved}"
    return {"path": path, "kind": {"type": "update", "move_path": moved}, "diff": diff}


def _problem(item: Item) -> str | None:
    error = item.get("error")
    if isinstance(error, str):
        return error
    return error.get("message") if isinstance(error, dict) else None


def _content_text(result: Item) -> str:
    parts = result.get("content") or ()
    return "\n".join(part.get("text", "") for part in parts if part.get("type") == "text")
