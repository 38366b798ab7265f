"""What a person types while attached to a terminal: all of it is the shell's, but for one way out.

Ctrl-] is ours, and only together with the key after it: `d` leaves the terminal running, and a
second Ctrl-] is typed as one. Whatever else follows is typed with it.
"""

from __future__ import annotations

from typing import NamedTuple

ESCAPE = b"\x1d"
_LEAVE = b"d"
#: For people.
NAME = "Ctrl-] and then d"


class Typed(NamedTuple):
    """What is for the shell, and whether the person wants to leave after it."""

    keys: bytes
    leave: bool = False


class Keys:
    """Tells what is whose; a Ctrl-] may be the last of one piece and belong to the next."""

    def __init__(self) -> None:
        self._escaped = False

    def sort(self, data: bytes) -> Typed:
        """Sort a piece of what was typed. What follows a leave is nobody's."""
        keys = bytearray()
        for number in data:
            key = bytes((number,))
            if not self._escaped:
                if key == ESCAPE:
                    self._escaped = True
                else:
                    keys += key
                continue
            self._escaped = False
            if key == _LEAVE:
                return Typed(bytes(keys), leave=True)
            keys += ESCAPE if key == ESCAPE else ESCAPE + key
        return Typed(bytes(keys))
