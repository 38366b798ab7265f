"""Where a prompt comes from: the command line, or standard input."""

from __future__ import annotations

import sys

import typer

#: Bytes of the longest prompt that a daemon takes, and one more.
_MOST_BYTES = 4_000_001
_LONGEST_TITLE = 60


def prompt_from(given: str | None) -> str:
    """Give the prompt: as it was typed, or all of standard input if it is `-` or piped."""
    if given is not None and given != "-":
        prompt = given
    elif given is None and sys.stdin.isatty():
        raise typer.BadParameter("What shall the agent do? For example: 'fix the failing test'")
    else:
        prompt = sys.stdin.buffer.read(_MOST_BYTES).decode(errors="replace")
    if not prompt.strip():
        raise typer.BadParameter("There is nothing in the prompt.")
    return prompt


def title_from(prompt: str) -> str:
    """Call a session after its first prompt."""
    first = prompt.strip().splitlines()[0].strip()
    return first if len(first) <= _LONGEST_TITLE else f"{first[: _LONGEST_TITLE - 1]}…"
