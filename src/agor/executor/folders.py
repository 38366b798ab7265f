"""The folder that a task or a terminal is to work in."""

from __future__ import annotations

from pathlib import Path

from agor.errors import InvalidParams
from agor.protocol.validation import quoted


def need_folder(cwd: str) -> None:
    """Refuse params whose `cwd` is not a folder here."""
    try:
        found = Path(cwd).is_dir()
    except OSError:  # too long, or out of reach
        found = False
    if not found:
        raise InvalidParams(f"params.cwd: {quoted(cwd)} is not a folder here")
