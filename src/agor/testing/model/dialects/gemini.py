"""Gemini: `generateContent` and `streamGenerateContent`, as Gemini CLI calls them.

The model and whether to stream are in the path. Streams are server-sent events with `alt=sse`, and
one JSON array without.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from agor.testing.model.asked import Asked, Entry
from agor.testing.model.dialects.base import Dialect, read_form
from agor.testing.model.dialects.gemini_errors import refuse
from agor.testing.model.playing import Speaker, deltas, encode, sse
from agor.testing.model.script import Error, StopReason, Tool

_STOPS: dict[StopReason, str] = {
    "end": "STOP",
    "tools": "STOP",
    "length": "MAX_TOKENS",
    "refusal": "SAFETY",
}


# ── reading ──────────────────────────────────────────────────────────────────────────────────


class _Call(Struct):
    name: str = ""
    id: str = ""


class _Part(Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    function_call: _Call | None = None
    function_response: _Call | None = None


class _Content(Struct):
    role: str = "user"
    parts: list[_Part] = []


class _Tool(Struct, rename="camel"):
    function_declarations: list[_Call] = []


class _Config(Struct, frozen=True, rename="camel"):
    response_json_schema: Any = None
    response_schema: Any = None


class _Body(Struct, rename="camel"):
    contents: list[_Content] = []
    system_instruction: _Content | None = None
    tools: list[_Tool] = []
    generation_config: _Config = _Config()
    #: When tokens are to be counted, the request may be in here.
    generate_content_request: _Body | None = None


def read(body: bytes) -> Asked:
    """Read a request; what the path tells is added by who knows it."""
    form = read_form(body, _Body)
    asked = form.generate_content_request or form
    system = asked.system_instruction
    entries = [Entry("system", _texts(system))] if system else []
    for content in asked.contents:
        entries += _entries(content)
    tools = (each.name for tool in asked.tools for each in tool.function_declarations)
    config = asked.generation_config
    schema = config.response_json_schema or config.response_schema
    return Asked(model="", entries=tuple(entries), tools=tuple(tools), schema=schema)


def _entries(content: _Content) -> Iterator[Entry]:
    if content.role == "model":
        calls = (part.function_call for part in content.parts)
        yield Entry("model", _texts(content), tuple(call.id for call in calls if call))
        return
    if any(part.function_response for part in content.parts):
        yield Entry("tool")
    if texts := _texts(content):
        yield Entry("user", texts)


def _texts(content: _Content) -> tuple[str, ...]:
    return tuple(part.text for part in content.parts if part.text and not part.thought)


# ── answering ────────────────────────────────────────────────────────────────────────────────


class GeminiSpeaker(Speaker):
    """Documents of one form, each with some parts of the one candidate."""

    _parts: list[dict[str, Any]]
    _response_id: str
    _finish: str

    def begin(self) -> Iterator[bytes]:
        """Begin; there is nothing to send before the first part."""
        self._parts = []
        self._response_id = self.naming.name("", 22)
        return iter(())

    def say(self, text: str) -> Iterator[bytes]:
        """Add text."""
        for piece in deltas(text):
            yield self._chunk({"text": piece})
        self._parts.append({"text": text})

    def think(self, text: str) -> Iterator[bytes]:
        """Add a thought. Each is a summary of its own, and comes in one piece."""
        self._parts.append({"text": text, "thought": True})
        yield self._chunk(self._parts[-1])

    def call(self, tool: Tool, position: int) -> Iterator[bytes]:
        """Add a call, which comes in one piece. The first of a turn has a signature."""
        assert isinstance(tool.input, dict)
        part: dict[str, Any] = {
            "functionCall": {
                "name": tool.name,
                "args": tool.input,
                "id": self.naming.name_call("call", self.turn.number, position),
            }
        }
        if position == 0:
            part["thoughtSignature"] = self.naming.name("", 64)
        self._parts.append(part)
        yield self._chunk(part)

    def end(self, stop: StopReason) -> Iterator[bytes]:
        """Give the reason."""
        self._finish = _STOPS[stop]
        yield self._chunk({"text": ""}, self._finish)

    def fail(self, error: Error) -> Iterator[bytes]:
        """Tell of an error in mid-answer."""
        yield self._frame(refuse(error).document)

    def whole(self) -> Any:
        """Give the answer."""
        return self._document(self._parts, self._finish)

    def _chunk(self, part: dict[str, Any], finish: str | None = None) -> bytes:
        return self._frame(self._document([part], finish))

    def _frame(self, document: Any) -> bytes:
        return sse(document)

    def _document(self, parts: list[dict[str, Any]], finish: str | None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}}
        if finish:
            candidate["finishReason"] = finish
        return {
            "candidates": [candidate | {"index": 0}],
            "usageMetadata": self._usage(),
            "modelVersion": self.asked.model,
            "responseId": self._response_id,
        }

    def _usage(self) -> dict[str, Any]:
        usage = self.usage
        told = {
            "promptTokenCount": usage.all_input,
            "candidatesTokenCount": usage.output - usage.thinking,
            "totalTokenCount": usage.all_input + usage.output,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.all_input}],
        }
        if usage.cache_read:
            told["cachedContentTokenCount"] = usage.cache_read
        if usage.thinking:
            told["thoughtsTokenCount"] = usage.thinking
        return told


class GeminiArraySpeaker(GeminiSpeaker):
    """The same documents as elements of one array."""

    _opened = False

    def end(self, stop: StopReason) -> Iterator[bytes]:
        """Close the array."""
        yield from super().end(stop)
        yield b"]"

    def fail(self, error: Error) -> Iterator[bytes]:
        """Close the array behind the error."""
        yield from super().fail(error)
        yield b"]"

    def _frame(self, document: Any) -> bytes:
        opening = b",\r\n" if self._opened else b"["
        self._opened = True
        return opening + encode(document)


def count(asked: Asked) -> Any:
    """Answer `countTokens`."""
    details = [{"modality": "TEXT", "tokenCount": asked.words}]
    return {"totalTokens": asked.words, "promptTokensDetails": details}


GEMINI = Dialect("gemini", read, GeminiSpeaker, refuse, count)
GEMINI_ARRAY = Dialect(
    "gemini",
    read,
    GeminiArraySpeaker,
    refuse,
    count,
    stream_media="application/json; charset=UTF-8",
)
