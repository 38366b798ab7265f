"""OpenAI chat completions: `/v1/chat/completions`, which most other providers speak as well.

Thinking goes out as `reasoning_content`, as those do who show it; OpenAI itself does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from agor.testing.model.asked import Asked, Entry
from agor.testing.model.dialects.base import Dialect, read_form, texts_of
from agor.testing.model.dialects.openai import refuse
from agor.testing.model.playing import Speaker, deltas, encode, sse
from agor.testing.model.script import Error, StopReason, Tool

_STOPS: dict[StopReason, str] = {
    "end": "stop",
    "tools": "tool_calls",
    "length": "length",
    "refusal": "content_filter",
}
_DONE = b"data: [DONE]\n\n"


# ── reading ──────────────────────────────────────────────────────────────────────────────────


class _Named(Struct, frozen=True):
    name: str = ""


class _Tool(Struct):
    function: _Named = _Named()


class _Call(Struct):
    id: str = ""


class _Message(Struct):
    role: str
    content: Any = None
    tool_calls: list[_Call] | None = None


class _StreamOptions(Struct):
    include_usage: bool = False


class _Body(Struct):
    model: str
    messages: list[_Message]
    tools: list[_Tool] | None = None
    stream: bool | None = False
    stream_options: _StreamOptions | None = None


def read(body: bytes) -> Asked:
    """Read a request."""
    form = read_form(body, _Body)
    return Asked(
        model=form.model,
        entries=tuple(_entry(message) for message in form.messages),
        tools=tuple(tool.function.name for tool in form.tools or ()),
        streaming=bool(form.stream),
        wants_usage=form.stream_options is not None and form.stream_options.include_usage,
    )


def _entry(message: _Message) -> Entry:
    texts = texts_of(message.content)
    if message.role == "assistant":
        return Entry("model", texts, tuple(call.id for call in message.tool_calls or ()))
    if message.role == "tool":
        return Entry("tool", texts)
    return Entry("user" if message.role == "user" else "system", texts)


# ── answering ────────────────────────────────────────────────────────────────────────────────


class ChatSpeaker(Speaker):
    """Chunks, each with a piece of the one message."""

    _common: dict[str, Any]
    _message: dict[str, Any]
    _finish: str

    def begin(self) -> Iterator[bytes]:
        """Begin the message."""
        self._message = {"role": "assistant", "content": None, "refusal": None}
        self._common = {
            "id": self.naming.name("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": self.now,
            "model": self.asked.model,
            "service_tier": "default",
            "system_fingerprint": None,
        }
        yield self._chunk({"role": "assistant", "content": "", "refusal": None})

    def say(self, text: str) -> Iterator[bytes]:
        """Add to the content."""
        for piece in deltas(text):
            yield self._chunk({"content": piece})
        self._message["content"] = (self._message["content"] or "") + text

    def think(self, text: str) -> Iterator[bytes]:
        """Add to the reasoning."""
        for piece in deltas(text):
            yield self._chunk({"reasoning_content": piece})
        self._message["reasoning_content"] = self._message.get("reasoning_content", "") + text

    def call(self, tool: Tool, position: int) -> Iterator[bytes]:
        """Add a call: its name first, its arguments piece by piece."""
        assert isinstance(tool.input, dict)
        arguments = encode(tool.input).decode()
        call = {
            "id": self.naming.name_call("call", self.turn.number, position),
            "type": "function",
            "function": {"name": tool.name, "arguments": ""},
        }
        yield self._chunk({"tool_calls": [{"index": position, **call}]})
        for piece in deltas(arguments):
            part = {"index": position, "function": {"arguments": piece}}
            yield self._chunk({"tool_calls": [part]})
        call["function"] = {"name": tool.name, "arguments": arguments}
        self._message.setdefault("tool_calls", []).append(call)

    def end(self, stop: StopReason) -> Iterator[bytes]:
        """Give the reason, then the usage if it was asked for."""
        self._finish = _STOPS[stop]
        yield self._chunk({}, finish=self._finish)
        if self.asked.wants_usage:
            yield sse({**self._common, "choices": [], "usage": self._usage()})
        yield _DONE

    def fail(self, error: Error) -> Iterator[bytes]:
        """Tell of an error in mid-answer."""
        yield sse(refuse(error).document)

    def whole(self) -> Any:
        """Give the completion."""
        choice = {
            "index": 0,
            "message": self._message,
            "logprobs": None,
            "finish_reason": self._finish,
        }
        document = {**self._common, "choices": [choice], "usage": self._usage()}
        return document | {"object": "chat.completion"}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {**self._common, "choices": [choice]}
        return sse(chunk | {"usage": None} if self.asked.wants_usage else chunk)

    def _usage(self) -> dict[str, Any]:
        usage = self.usage
        return {
            "prompt_tokens": usage.all_input,
            "completion_tokens": usage.output,
            "total_tokens": usage.all_input + usage.output,
            "prompt_tokens_details": {
                "cached_tokens": usage.cache_read,
                "cache_write_tokens": usage.cache_write,
                "audio_tokens": 0,
            },
            "completion_tokens_details": {
                "reasoning_tokens": usage.thinking,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        }


def count(asked: Asked) -> Any:
    """Count tokens; this API has no call for it."""
    return {"input_tokens": asked.words}


CHAT = Dialect("chat", read, ChatSpeaker, refuse, count)
