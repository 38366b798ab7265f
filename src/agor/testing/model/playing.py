"""Plays a turn: from its steps to the bytes of an answer, and the waits and faults between them.

Nothing here waits or sends: it yields what is to be done, and the connection does it.
"""

from __future__ import annotations

import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from agor.testing.model.asked import Asked, Naming
from agor.testing.model.script import Error, Step, StopReason, Tool, Turn, Usage

#: At most about so many deltas for one text: long ones come in larger pieces.
_MOST_DELTAS = 256


class Wait(NamedTuple):
    """Wait before the next piece."""

    seconds: float


class Fault(enum.Enum):
    """What a connection does that is not in order."""

    STALL = enum.auto()
    CUT = enum.auto()


Piece = bytes | Wait | Fault


class Speaker(ABC):
    """One answer in the making, in the words of one API.

    Its methods give the events of a stream; `whole` is the same answer for who asked for no stream.
    """

    def __init__(self, asked: Asked, turn: Turn, naming: Naming, now: int) -> None:
        self.asked = asked
        self.turn = turn
        self.naming = naming
        #: Seconds since 1970.
        self.now = now
        self.usage = turn.usage or count_words(asked, turn)

    @abstractmethod
    def begin(self) -> Iterator[bytes]:
        """Open the stream."""

    @abstractmethod
    def say(self, text: str) -> Iterator[bytes]:
        """Say something."""

    @abstractmethod
    def think(self, text: str) -> Iterator[bytes]:
        """Think aloud."""

    @abstractmethod
    def call(self, tool: Tool, position: int) -> Iterator[bytes]:
        """Call a tool; `position` counts the calls of this turn from 0."""

    @abstractmethod
    def end(self, stop: StopReason) -> Iterator[bytes]:
        """End the stream in order."""

    @abstractmethod
    def fail(self, error: Error) -> Iterator[bytes]:
        """End the stream with an error."""

    @abstractmethod
    def whole(self) -> Any:
        """Give the answer as one document. Only after `end`."""


def play_stream(turn: Turn, speaker: Speaker) -> Iterator[Piece]:
    """Play a turn as a stream."""
    pace = 0
    calls = 0
    yield from speaker.begin()
    for step in turn.steps:
        if step.pace_ms is not None:
            pace = step.pace_ms
        elif step.delay_ms is not None:
            yield Wait(step.delay_ms / 1000)
        elif step.refusal is not None:
            yield from speaker.fail(step.refusal)
            return
        elif step.stall:
            yield Fault.STALL
            return
        elif step.cut:
            event = next(speaker.say("This is cut off."))
            yield event[: len(event) // 2]
            yield Fault.CUT
            return
        else:
            for event in _events(step, speaker, calls):
                if pace:
                    yield Wait(pace / 1000)
                yield event
            calls += step.tool is not None
    yield from speaker.end(turn.stop)


def play_whole(turn: Turn, speaker: Speaker) -> tuple[list[Piece], int]:
    """Play a turn as one document; also tells how long that is. A turn with an error has none."""
    waits: list[Piece] = []
    cut = False
    for piece in play_stream(turn, speaker):
        if piece is Fault.STALL:
            return [*waits, piece], 0
        if isinstance(piece, Wait):
            waits.append(piece)
        cut = piece is Fault.CUT
    if cut:
        list(speaker.end(turn.stop))
    body = encode(speaker.whole())
    if cut:
        return [*waits, body[: len(body) // 2], Fault.CUT], len(body)
    return [*waits, body], len(body)


def _events(step: Step, speaker: Speaker, calls: int) -> Iterator[bytes]:
    if step.text is not None:
        return speaker.say(step.text)
    if step.thinking is not None:
        return speaker.think(step.thinking)
    if step.tool is not None:
        return speaker.call(step.tool, calls)
    return iter(())


def deltas(text: str) -> list[str]:
    """Cut a text into the pieces in which it is streamed: words, or several at a time."""
    words = re.findall(r"\S+\s*|\s+", text)
    at_once = max(1, len(words) // _MOST_DELTAS)
    grouped = ["".join(words[at : at + at_once]) for at in range(0, len(words), at_once)]
    longest = max(1024, len(text) // _MOST_DELTAS)
    return [piece[at : at + longest] for piece in grouped for at in range(0, len(piece), longest)]


def count_words(asked: Asked, turn: Turn) -> Usage:
    """Count the tokens of a turn that does not tell them: a word is one."""
    thinking = sum(len(step.thinking.split()) for step in turn.steps if step.thinking)
    text = sum(len(step.text.split()) for step in turn.steps if step.text)
    tools = sum(len(str(step.tool.input).split()) for step in turn.steps if step.tool)
    return Usage(input=asked.words, output=text + thinking + tools, thinking=thinking)


#: Encodes in a fixed order, as it was put together.
encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode


def sse(data: Any, event: str | None = None) -> bytes:
    """Spell one server-sent event."""
    name = b"event: %b\n" % event.encode() if event else b""
    return b"%bdata: %b\n\n" % (name, encode(data))
