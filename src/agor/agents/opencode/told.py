"""What a record of OpenCode says, as blocks. Pure.

Left out of the likeness with the blocks told live: of tools that ran side by side, results may be
in another order if they ended in the same millisecond.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agor.agents.opencode.calls import tool_input
from agor.protocol.transcripts import TranscriptBlock

#: Keeps OpenCode from taking a prompt for a command: one that it does not know is simply dropped,
#: and what its own ones run is asked about by nobody.
GUARD = "\u200b"

Json = dict[str, Any]


def guarded(prompt: str) -> str:
    """Make a prompt that is taken for a prompt."""
    return GUARD + prompt if prompt.lstrip().startswith("/") else prompt


def tell(messages: Iterable[Json]) -> list[TranscriptBlock]:
    """Tell messages as the blocks that were told live."""
    blocks: list[TranscriptBlock] = []
    for message in messages:
        parts = [part for part in message["parts"] if isinstance(part, dict)]
        if message["info"].get("role") == "user":
            blocks += _user(parts)
        else:
            blocks += _assistant(parts)
    return blocks


def _user(parts: list[Json]) -> list[TranscriptBlock]:
    texts = [
        str(part.get("text", ""))
        for part in parts
        # What OpenCode says to the model in the user's name was said by nobody.
        if part.get("type") == "text" and not part.get("synthetic") and not part.get("ignored")
    ]
    text = "".join(texts)
    if text.startswith(GUARD):
        text = text.removeprefix(GUARD)
    return [TranscriptBlock(kind="user_message", text=text)] if text else []


def _assistant(parts: list[Json]) -> list[TranscriptBlock]:
    """Tell one message: in the order of its parts, with results at the time when they came."""
    found: list[tuple[float, int, TranscriptBlock]] = []
    latest = 0.0
    text: TranscriptBlock | None = None
    for part in parts:
        if part.get("type") in ("step-start", "step-finish"):
            continue
        began = _time(part, "start")
        latest = max(latest, began)
        match part.get("type"):
            case "text" if part.get("text") and text is not None:
                # Two texts with nothing between them are one.
                text = TranscriptBlock(kind="text", text=text.text + part["text"])
                found[-1] = (found[-1][0], 0, text)
                continue
            case "text" if part.get("text"):
                text = TranscriptBlock(kind="text", text=part["text"])
                found.append((latest, 0, text))
                continue
            case "reasoning" if part.get("text"):
                found.append((latest, 0, TranscriptBlock(kind="thinking", text=part["text"])))
            case "tool":
                use, result = _tool(part)
                found.append((latest, 0, use))
                if result is not None:
                    found.append((max(latest, _time(part, "end")), 1, result))
        text = None
    # Stable: what came at the same time stays in the order of the parts, results behind all else.
    return [block for _, _, block in sorted(found, key=lambda each: each[:2])]


def _tool(part: Json) -> tuple[TranscriptBlock, TranscriptBlock | None]:
    state = part.get("state") or {}
    given = state.get("input") or {}
    name = str(part.get("tool"))
    # So it calls a tool that is none; live it has the name that the model gave.
    is_tool = name != "invalid"
    if not is_tool:
        name = str(given.get("tool", name))
    call_id = str(part.get("callID"))
    use = TranscriptBlock(
        kind="tool_use", tool_use_id=call_id, tool_name=name, tool_input=tool_input(name, given)
    )
    failed = state.get("status") == "error"
    if not failed and state.get("status") != "completed":
        return use, None
    text = str(state.get("error" if failed else "output") or "")
    is_error = failed or not is_tool
    return use, TranscriptBlock(
        kind="tool_result", tool_use_id=call_id, text=text, is_error=is_error
    )


def _time(part: Json, name: str) -> float:
    times = part.get("time") or (part.get("state") or {}).get("time") or {}
    value = times.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0
