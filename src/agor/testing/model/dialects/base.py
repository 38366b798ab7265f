"""What a dialect is: the seam between the script and one provider's API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec

from agor.errors import BadInput
from agor.protocol.validation import UNREADABLE, name_the_field
from agor.testing.model.asked import Asked
from agor.testing.model.playing import Speaker
from agor.testing.model.script import Error, ErrorKind

Form = TypeVar("Form")


class Refused(NamedTuple):
    """An answer that is no answer."""

    status: int
    document: Any
    headers: tuple[tuple[str, str], ...] = ()


class ErrorForm(NamedTuple):
    """How a provider tells of one kind of error: with which status, word and message."""

    status: int
    word: str
    message: str


Faults = Mapping[ErrorKind, ErrorForm]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API."""

    name: str
    read: Callable[[bytes], Asked]
    speaker: type[Speaker]
    refuse: Callable[[Error], Refused]
    #: The answer to "how many tokens is this".
    count: Callable[[Asked], Any]
    #: The type of its streams.
    stream_media: str = "text/event-stream; charset=utf-8"
    #: Errors that a stream begins well with, although there is nothing to stream.
    told_in_stream: frozenset[ErrorKind] = frozenset()
    #: Whether it has tools whose input is text.
    has_text_tools: bool = False


def read_form(body: bytes, form: type[Form]) -> Form:
    """Read a request's body; what is beside the form is ignored."""
    try:
        return msgspec.json.decode(body, type=form)
    except UNREADABLE as error:
        raise BadInput(name_the_field(error, "body")) from None


def advice(error: Error) -> tuple[tuple[str, str], ...]:
    """Make the headers that tell the caller whether and when to try again."""
    headers = []
    if error.retry_after is not None:
        headers.append(("retry-after", f"{error.retry_after:g}"))
    if error.retry is not None:
        headers.append(("x-should-retry", "true" if error.retry else "false"))
    return tuple(headers)


def texts_of(content: Any) -> tuple[str, ...]:
    """Take the text out of content, which all APIs have as a string or as a list of parts."""
    if isinstance(content, str):
        return (content,)
    if not isinstance(content, list):
        return ()
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return tuple(text for text in parts if isinstance(text, str))
