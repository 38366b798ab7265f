"""What programs switched on in the person's own terminal, to be switched off when they are left.

Somebody who leaves an editor that goes on elsewhere must not be left with its other screen, its
mouse and no cursor.
"""

from __future__ import annotations

import re

_PRIVATE = re.compile(rb"\x1b\[\?([0-9;]{1,64})([hl])")
#: The longest beginning of such a sequence that a piece can end with.
_LONGEST = 68
#: Private modes that are as they should be when they are off: application keys, mouse reports,
#: focus reports, the other screen in its three ways, bracketed paste, synchronized output.
_OFF = frozenset((1, 9, 47, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004, 2026))
#: Those that should be on: wrapping, and the cursor.
_ON = frozenset((7, 25))
#: Colours, the keypad and the character set are put back whatever was done to them.
_PLAIN = b"\x1b[0m\x1b>\x1b(B"


class Modes:
    """Watches what is printed, and knows how to undo it."""

    def __init__(self) -> None:
        self._rest = b""
        #: Those that are not as they should be, in the order in which they were changed.
        self._changed: dict[int, None] = {}

    def watch(self, printed: bytes) -> None:
        """Look at the next piece of what is printed."""
        text = self._rest + printed
        end = 0
        for found in _PRIVATE.finditer(text):
            end = found.end()
            switched_on = found[2] == b"h"
            for mode in map(int, filter(None, found[1].split(b";"))):
                self._note(mode, switched_on=switched_on)
        self._rest = text[max(end, len(text) - _LONGEST) :]

    def _note(self, mode: int, *, switched_on: bool) -> None:
        if (mode in _OFF and switched_on) or (mode in _ON and not switched_on):
            self._changed[mode] = None
        else:
            self._changed.pop(mode, None)

    def undo(self) -> bytes:
        """Give what has to be printed so that all is as it was; the last change first."""
        back = [
            b"\x1b[?%d%b" % (mode, b"l" if mode in _OFF else b"h")
            for mode in reversed(self._changed)
        ]
        return b"".join(back) + _PLAIN
