"""The script: what the model says, turn by turn, and how it fails.

    {"model_script": [
      [{"thinking": "…"}, {"tool": {"name": "Write", "input": {…}}}],
      [{"text": "Done."}]
    ]}

A turn is an array of steps, or one step alone. A step has one of these members:

    text, thinking    said piece by piece
    tool              a call: name and input; several in one turn are called together
    delay_ms          waits
    pace_ms           from here on waits this long before each event
    usage             the tokens that this turn tells of, in place of counted words
    stop              why the turn ends, where it is not the obvious reason
    error             refuses the call; in mid-answer, the stream tells of it
    stall             says nothing more, and keeps the connection
    cut               closes the connection in the middle of an event

`times` beside error, stall or cut: only so often for the same question; then the step is skipped.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from agor.errors import BadScript
from agor.protocol.validation import UNREADABLE, name_the_field

Count = Annotated[int, Meta(ge=0, le=2**53)]
#: At most an hour: nothing here waits for ever.
Milliseconds = Annotated[int, Meta(ge=0, le=3_600_000)]

ErrorKind = Literal[
    "bad_key",
    "forbidden",
    "not_found",
    "bad_request",
    "context_full",
    "quota",
    "rate_limit",
    "server_error",
    "overloaded",
]
StopReason = Literal["end", "tools", "length", "refusal"]

#: The member of a JSON document that makes it a script.
MARK = "model_script"

_OPENING = re.compile(r'\{\s*"model_script"\s*:')
_FAULTS = ("error", "stall", "cut")
_MODIFIERS = ("times",)


class Tool(Struct, forbid_unknown_fields=True, frozen=True):
    """A call of a tool. Only OpenAI's custom tools take text as their input."""

    name: Annotated[str, Meta(min_length=1)]
    input: dict[str, Any] | str = {}
    #: Where the tool is one of a namespace, as Codex has them.
    namespace: str | None = None


class Usage(Struct, forbid_unknown_fields=True, frozen=True):
    """Tokens. `input` is without those of the cache, `output` is with those of `thinking`."""

    input: Count = 0
    output: Count = 0
    cache_read: Count = 0
    cache_write: Count = 0
    thinking: Count = 0

    @property
    def all_input(self) -> int:
        """What went in, wherever it came from."""
        return self.input + self.cache_read + self.cache_write


class Error(Struct, forbid_unknown_fields=True, frozen=True):
    """How a call is refused. What is left out is as the provider has it."""

    kind: ErrorKind
    message: str | None = None
    status: Annotated[int, Meta(ge=400, le=599)] | None = None
    #: Seconds that the caller is asked to wait.
    retry_after: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    #: Whether the caller is told to try again, or not to; otherwise as the provider has it.
    retry: bool | None = None


class Step(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """One step; exactly one member is set, beside `times`."""

    text: str | None = None
    thinking: str | None = None
    tool: Tool | None = None
    delay_ms: Milliseconds | None = None
    pace_ms: Milliseconds | None = None
    usage: Usage | None = None
    stop: StopReason | None = None
    error: ErrorKind | Error | None = None
    stall: Literal[True] | None = None
    cut: Literal[True] | None = None
    times: Annotated[int, Meta(ge=1)] | None = None

    @property
    def refusal(self) -> Error | None:
        """The error, also where only its kind was given."""
        return Error(self.error) if isinstance(self.error, str) else self.error


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model says in answer to one call."""

    steps: tuple[Step, ...]
    #: Which turn of its script it is, from 0.
    number: int = 0

    def at(self, attempt: int) -> Turn:
        """Give what is said when the same question came `attempt` times before."""
        kept = tuple(step for step in self.steps if step.times is None or attempt < step.times)
        return replace(self, steps=kept)

    def until_fault(self) -> Turn | None:
        """Give what is said before the first fault; none if there is no fault."""
        for position, step in enumerate(self.steps):
            if any(getattr(step, name) is not None for name in _FAULTS):
                return replace(self, steps=self.steps[:position])
        return None

    @property
    def text(self) -> str:
        """All the text of it."""
        return "".join(step.text for step in self.steps if step.text)

    @property
    def usage(self) -> Usage | None:
        """The tokens it tells of."""
        return next((step.usage for step in reversed(self.steps) if step.usage), None)

    @property
    def stop(self) -> StopReason:
        """Why it ends."""
        told = next((step.stop for step in reversed(self.steps) if step.stop), None)
        return told or ("tools" if self.calls_tools else "end")

    @property
    def calls_tools(self) -> bool:
        """Whether it calls any."""
        return any(step.tool is not None for step in self.steps)


Script = tuple[Turn, ...]


def saying(text: str) -> Turn:
    """Make a turn that says one thing."""
    return Turn((Step(text=text),))


def find_script(text: str) -> Script | None:
    """Find the last script in what a user wrote; other text may stand around it."""
    found = None
    for opening in _OPENING.finditer(text):
        # What stands inside of another one is a part of it.
        if found is None or opening.start() >= found.stop:
            found = slice(opening.start(), _end_of_document(text, opening.start()))
    return None if found is None else parse_script(text[found].encode(errors="surrogatepass"))


def read_script(document: object) -> Script:
    """Check a script, with or without the object around it; raise `BadScript` naming the step."""
    if isinstance(document, dict):
        if set(document) != {MARK}:
            raise BadScript(f'a script is {{"{MARK}": [turns]}} and nothing beside it')
        document = document[MARK]
    try:
        turns = msgspec.convert(document, list[list[Step] | Step])
    except msgspec.ValidationError as error:
        raise BadScript(name_the_field(error, MARK)) from None
    script = []
    for number, steps in enumerate(turns):
        all_steps = tuple(steps) if isinstance(steps, list) else (steps,)
        for position, step in enumerate(all_steps):
            _check(step, f"{MARK}[{number}][{position}]")
        script.append(Turn(all_steps, number))
    return tuple(script)


def parse_script(text: bytes) -> Script:
    """Read a script from JSON."""
    try:
        return read_script(msgspec.json.decode(text))
    except UNREADABLE as error:
        raise BadScript(name_the_field(error, MARK)) from None


def _end_of_document(text: str, start: int) -> int:
    # Only this reader can tell; what is in it is read by the other, which is stricter.
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError) as error:
        raise BadScript(f"{MARK}: not JSON: {error}") from None


def _check(step: Step, where: str) -> None:
    names = [name for name in step.__struct_fields__ if name not in _MODIFIERS]
    members = [name for name in names if getattr(step, name) is not None]
    if len(members) != 1:
        raise BadScript(
            f"{where}: a step has exactly one member, not {len(members)}",
            hint=f"Members: {', '.join(names)}.",
        )
    if step.times is not None and members[0] not in _FAULTS:
        raise BadScript(f"{where}.times: goes with {', '.join(_FAULTS)} only")
