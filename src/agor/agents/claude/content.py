"""The texts of Claude's messages: the same for what is told live and what is read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Who speaks when Claude Code itself puts words into the model's mouth, such as errors.
SYNTHETIC = "<synthetic>"
#: Words that nobody needs to hear: the model was not asked anything.
NOTHING = "No response requested."
#: What is said where Claude has put a summary in place of what was before.
COMPACTED = "The conversation was compacted."


def text_of_result(content: str | Sequence[dict[str, Any]] | None) -> str:
    """Put together what a tool answered; what is no text is named."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(_text_of(part) for part in content)


def _text_of(part: dict[str, Any]) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else f"[{part.get('type', 'unknown')}]"
