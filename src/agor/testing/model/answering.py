"""From a request to its answer, without a connection: all that is between bytes and bytes."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs

from agor.errors import BadInput
from agor.testing.model.asked import Asked, Naming
from agor.testing.model.choosing import choose
from agor.testing.model.dialects.base import Dialect
from agor.testing.model.dialects.chat import CHAT
from agor.testing.model.model_lists import describe_model, list_models
from agor.testing.model.playing import Piece, Wait, encode, play_stream, play_whole
from agor.testing.model.routing import Call, find_call
from agor.testing.model.script import Error, ErrorKind, Script, Turn

JSON = "application/json"

#: How many different questions are remembered, to know how often each came.
_MOST_QUESTIONS = 10_000


@dataclass(frozen=True, slots=True)
class Question:
    """A request. The names of its headers are in lower case."""

    method: str
    #: The path with its query.
    target: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def key(self) -> str | None:
        """The key it came with, wherever providers have them."""
        bearer = self.headers.get("authorization", "")
        if bearer.lower().startswith("bearer "):
            return bearer[len("bearer ") :].strip()
        for name in ("x-api-key", "x-goog-api-key"):
            if name in self.headers:
                return self.headers[name]
        return next(iter(parse_qs(self.target.partition("?")[2]).get("key", [])), None)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back. One without `length` is a stream, whose head goes out at once."""

    status: int
    headers: tuple[tuple[str, str], ...]
    pieces: Iterable[Piece]
    length: int | None


class Answering:
    """Answers questions. It remembers nothing but how often each was asked."""

    def __init__(
        self,
        *,
        script: Script | None = None,
        keys: Collection[str] | None = None,
        models: Sequence[str] = (),
        seed: str | None = None,
    ) -> None:
        self._script = script
        self._keys = None if keys is None else frozenset(keys)
        self._models = models
        #: Two servers must not make up the same ids: agents take what has the same id for one.
        self._seed = secrets.token_hex(8) if seed is None else seed
        self._asked: OrderedDict[str, int] = OrderedDict()

    def answer(self, question: Question, *, number: int, now: int) -> Answer:
        """Answer the question that came as the `number`-th, at `now` seconds since 1970."""
        if question.target.partition("?")[0] == "/" and question.method in ("GET", "HEAD"):
            return whole(200, {"name": "agor model-server"})
        call = find_call(question.method, question.target, question.headers)
        if self._keys is not None and question.key not in self._keys:
            return refusal(call.dialect, Error("bad_key"))
        try:
            return self._answer(call, question, number, now)
        except BadInput as error:
            return refusal(call.dialect, Error("bad_request", error.message))

    def _answer(self, call: Call, question: Question, number: int, now: int) -> Answer:
        if call.wanted == "nothing":
            told = f"there is nothing at {question.method} {question.target.partition('?')[0]}"
            # OpenAI's word for it would be that of a model which does not exist.
            kind: ErrorKind = "bad_request" if call.dialect is CHAT else "not_found"
            return refusal(call.dialect, Error(kind, told, status=404))
        if call.wanted == "models":
            if call.model is not None:
                return whole(200, describe_model(call.dialect, call.model))
            return whole(200, list_models(call.dialect, self._models))
        if question.headers.get("content-encoding", "identity") != "identity":
            raise BadInput("a body that is encoded (content-encoding) is not taken here")
        asked = call.dialect.read(question.body)
        if call.model is not None:
            asked = replace(asked, model=call.model)
        if call.streaming is not None:
            asked = replace(asked, streaming=call.streaming)
        if call.wanted == "count":
            return whole(200, call.dialect.count(asked))
        turn = choose(asked, self._script, self._count(asked))
        return play(call.dialect, asked, turn, Naming(f"{self._seed}/{number}"), now)

    def _count(self, asked: Asked) -> int:
        """Tell how often this was asked before."""
        before = self._asked.pop(asked.digest, 0)
        self._asked[asked.digest] = before + 1
        if len(self._asked) > _MOST_QUESTIONS:
            self._asked.popitem(last=False)
        return before


def play(dialect: Dialect, asked: Asked, turn: Turn, naming: Naming, now: int) -> Answer:
    """Play a turn in a dialect."""
    for step in turn.steps:
        if step.tool and isinstance(step.tool.input, str) and not dialect.has_text_tools:
            raise BadInput(f"the input of {step.tool.name} must be an object in this API, not text")
    waits, error = _refusal_of(turn, asked, dialect)
    if error is not None:
        return refusal(dialect, error, waits)
    speaker = dialect.speaker(asked, turn, naming, now)
    headers = (("x-request-id", naming.name("req_")), ("request-id", naming.name("req_")))
    if asked.streaming:
        media = (("content-type", dialect.stream_media), ("cache-control", "no-cache"))
        return Answer(200, (*media, *headers), play_stream(turn, speaker), None)
    pieces, length = play_whole(turn, speaker)
    return Answer(200, (("content-type", JSON), *headers), pieces, length)


def _refusal_of(turn: Turn, asked: Asked, dialect: Dialect) -> tuple[list[Piece], Error | None]:
    """Give the error that a call is refused with, if it is, and the waits before it.

    Once a stream has begun it is too late to refuse: then the stream tells of the error.
    """
    waits: list[Piece] = []
    for step in turn.steps:
        if step.delay_ms is not None:
            waits.append(Wait(step.delay_ms / 1000))
        elif step.refusal is not None:
            late = asked.streaming and step.refusal.kind in dialect.told_in_stream
            return waits, None if late else step.refusal
        elif step.stall or step.cut or (asked.streaming and _says_something(step)):
            break
    return [], None


def _says_something(step: Any) -> bool:
    return step.text is not None or step.thinking is not None or step.tool is not None


def refusal(dialect: Dialect, error: Error, waits: Sequence[Piece] = ()) -> Answer:
    """Refuse in the words of a dialect."""
    refused = dialect.refuse(error)
    return whole(refused.status, refused.document, refused.headers, waits)


def whole(
    status: int,
    document: Any,
    headers: Sequence[tuple[str, str]] = (),
    waits: Sequence[Piece] = (),
) -> Answer:
    """Answer with one document."""
    body = encode(document)
    return Answer(status, (("content-type", JSON), *headers), (*waits, body), len(body))
