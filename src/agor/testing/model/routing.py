"""Which call a path means: the dialect, what is wanted, and what the path itself tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import parse_qs, unquote

from agor.testing.model.dialects.anthropic import ANTHROPIC
from agor.testing.model.dialects.base import Dialect
from agor.testing.model.dialects.chat import CHAT
from agor.testing.model.dialects.gemini import GEMINI, GEMINI_ARRAY
from agor.testing.model.dialects.responses import RESPONSES

_POSTS: Mapping[str, tuple[Dialect, Literal["answer", "count"]]] = {
    "/v1/messages": (ANTHROPIC, "answer"),
    "/v1/messages/count_tokens": (ANTHROPIC, "count"),
    "/v1/responses": (RESPONSES, "answer"),
    "/v1/responses/input_tokens": (RESPONSES, "count"),
    "/v1/chat/completions": (CHAT, "answer"),
}
_GEMINI = re.compile(r"^/v1(?:beta|alpha)?/(?:.+/)?models/(?P<model>[^/:]+):(?P<verb>[A-Za-z]+)$")
_MODELS = re.compile(r"^/(?P<version>v1|v1beta)/models(?:/(?P<model>.+))?$")


class Call(NamedTuple):
    """What is wanted."""

    dialect: Dialect
    wanted: Literal["answer", "count", "models", "nothing"]
    #: Where the path tells it.
    model: str | None = None
    streaming: bool | None = None


def find_call(method: str, target: str, headers: Mapping[str, str]) -> Call:
    """Tell what a request wants; `nothing` if there is nothing at this path."""
    path, _, query = target.partition("?")
    if method == "POST":
        if path in _POSTS:
            return Call(*_POSTS[path])
        if found := _GEMINI.match(path):
            return _gemini_call(found["verb"], unquote(found["model"]), query)
    if method in ("GET", "HEAD") and (found := _MODELS.match(path)):
        dialect = GEMINI if found["version"] == "v1beta" else _openai_or_anthropic(headers)
        named = found["model"]
        return Call(dialect, "models", unquote(named) if named else None)
    return Call(_nearest(path, headers), "nothing")


def _gemini_call(verb: str, model: str, query: str) -> Call:
    if verb == "generateContent":
        return Call(GEMINI, "answer", model, streaming=False)
    if verb == "streamGenerateContent":
        as_events = parse_qs(query).get("alt") == ["sse"]
        return Call(GEMINI if as_events else GEMINI_ARRAY, "answer", model, streaming=True)
    return Call(GEMINI, "count" if verb == "countTokens" else "nothing", model)


def _openai_or_anthropic(headers: Mapping[str, str]) -> Dialect:
    return ANTHROPIC if "anthropic-version" in headers else CHAT


def _nearest(path: str, headers: Mapping[str, str]) -> Dialect:
    """Guess in whose words to say that there is nothing."""
    if path.startswith("/v1beta"):
        return GEMINI
    if "messages" in path:
        return ANTHROPIC
    return _openai_or_anthropic(headers)
