"""Words that others wrote, as they may be shown: nothing in them steers the terminal."""

from __future__ import annotations

#: Control characters, but for tab and newline; and what turns or hides the text behind it.
_CONTROLS = dict.fromkeys(
    (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
)


def printable(text: str) -> str:
    """Take out what would steer the terminal: an agent must not hide what it asks for."""
    return text.translate(_CONTROLS)
