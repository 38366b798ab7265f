"""Tells whether a text fits a row of steps, in time that grows with the text alone. Pure.

All ways in which the text may be read are followed at once, one bit of a number for each, so there
is no pattern that makes it try again and again.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import NamedTuple, TypeVar

K = TypeVar("K")


class Literal(NamedTuple):
    """One character, as it is."""

    character: str


class Many(NamedTuple):
    """Any number of visible characters, but none of these."""

    refused: frozenset[str]


class Perhaps(NamedTuple):
    """The steps behind it, so many, may be left out together."""

    steps: int


Step = Literal | Many | Perhaps


@lru_cache(4096)
def is_visible(character: str) -> bool:
    """Tell whether it shows as what it is: no control, no zero width, no odd space."""
    return character == " " or unicodedata.category(character)[0] in "LMNPS"


class Automaton:
    """Steps, ready for use. A state is the number of steps that are behind it."""

    def __init__(self, steps: list[Step]) -> None:
        self._literals: dict[str, int] = {}
        self._loops: dict[frozenset[str], int] = {}
        #: States from which so many steps may be gone without reading.
        self._skips: dict[int, int] = {}
        self._end = 1 << len(steps)
        for place, step in enumerate(steps):
            bit = 1 << place
            match step:
                case Literal(character):
                    _add(self._literals, character, bit)
                case Many(refused):
                    _add(self._loops, refused, bit)
                    _add(self._skips, 1, bit)
                case Perhaps(count):
                    _add(self._skips, 1, bit)
                    _add(self._skips, 1 + count, bit)

    def fits(self, text: str) -> bool:
        """Tell whether the whole text fits."""
        states = self._without_reading(1)
        for character in text:
            states = self._read(states, character)
            if not states:
                return False
        return bool(states & self._end)

    def _read(self, states: int, character: str) -> int:
        after = (states & self._literals.get(character, 0)) << 1
        if is_visible(character):
            for refused, bits in self._loops.items():
                if character not in refused:
                    after |= states & bits
        return self._without_reading(after)

    def _without_reading(self, states: int) -> int:
        # Every round goes at least one step further, so there are few of them.
        while True:
            before = states
            for count, bits in self._skips.items():
                states |= (states & bits) << count
            if states == before:
                return states


def _add(bits_of: dict[K, int], key: K, bit: int) -> None:
    bits_of[key] = bits_of.get(key, 0) | bit
