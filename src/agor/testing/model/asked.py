"""What a model is asked, whichever API it is asked through: a conversation and what may be used."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

_CALL_ID = re.compile(r"_t(\d+)c\d+_[0-9a-f]+$")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was said. A message with several sorts of content is several entries."""

    who: Literal["user", "model", "tool", "system"]
    #: The pieces of text it has, in order.
    texts: tuple[str, ...] = ()
    #: The ids of the tool calls in it.
    calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """One call, without what only its dialect knows."""

    model: str
    entries: tuple[Entry, ...]
    #: The names of the tools that may be called.
    tools: tuple[str, ...] = ()
    streaming: bool = False
    #: Whether a stream is to end with the usage, where that is a choice.
    wants_usage: bool = True
    #: The JSON schema that the answer is to fit, if it asks for that.
    schema: Any = None

    @cached_property
    def words(self) -> int:
        """How much was said: a word counts as a token here, which makes sums easy to check."""
        return sum(len(text.split()) for entry in self.entries for text in entry.texts)

    @cached_property
    def digest(self) -> str:
        """Tells the same question asked again from another one."""
        said = [(entry.who, entry.texts, entry.calls) for entry in self.entries]
        # What agents tell a model beside the conversation may change from call to call.
        asked = [each for each in said if each[0] != "system"]
        return hashlib.sha256(msgspec.json.encode((self.tools, asked))).hexdigest()


def turns_in(entries: tuple[Entry, ...]) -> list[str]:
    """Give what the model said in each of its turns.

    What it said in a row is one turn. Agents may put the result of a call right behind that call,
    though, and so into the middle of a turn; the ids of our calls tell.
    """
    turns: list[str] = []
    speaking = False
    for entry in entries:
        if entry.who == "model":
            said = " ".join(entry.texts)
            of_turn = [int(found[1]) for id_ in entry.calls if (found := _CALL_ID.search(id_))]
            if speaking or (turns and of_turn and max(of_turn) < len(turns)):
                turns[-1] = f"{turns[-1]} {said}"
            else:
                turns.append(said)
        if entry.who != "system":
            speaking = entry.who == "model"
    return turns


class Naming:
    """Makes up ids that nobody else has: all that goes in is a seed that only one answer has."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._made = 0

    def name(self, prefix: str, length: int = 24) -> str:
        """Make up the next one."""
        self._made += 1
        digest = hashlib.sha256(f"{self._seed}/{self._made}".encode()).hexdigest()
        return prefix + digest[:length]

    def name_call(self, prefix: str, turn: int, position: int) -> str:
        """Make up the id of a tool call: it tells to which turn it belongs."""
        return self.name(f"{prefix}_t{turn}c{position}_", 12)
