"""Anthropic Messages: `/v1/messages`, as Claude Code calls it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agor.testing.model.asked import Asked, Entry
from agor.testing.model.dialects.base import (
    Dialect,
    ErrorForm,
    Faults,
    Refused,
    advice,
    read_form,
    texts_of,
)
from agor.testing.model.playing import Speaker, deltas, encode, sse
from agor.testing.model.script import Error, ErrorKind, StopReason, Tool

FAULTS: Faults = {
    "bad_key": ErrorForm(401, "authentication_error", "invalid x-api-key"),
    "forbidden": ErrorForm(
        403, "permission_error", "Your API key does not have permission to use this resource."
    ),
    "not_found": ErrorForm(404, "not_found_error", "model: not found"),
    "bad_request": ErrorForm(400, "invalid_request_error", "The request is not valid."),
    "context_full": ErrorForm(
        400, "invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"
    ),
    "quota": ErrorForm(
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing "
        "to upgrade or purchase credits.",
    ),
    "rate_limit": ErrorForm(
        429, "rate_limit_error", "This request would exceed your organization's rate limit."
    ),
    "server_error": ErrorForm(500, "api_error", "Internal server error"),
    "overloaded": ErrorForm(529, "overloaded_error", "Overloaded"),
}
#: Errors after which this API asks its callers to try again; after others it asks them not to.
_PASSING: tuple[ErrorKind, ...] = ("rate_limit", "server_error", "overloaded")
_STOPS: dict[StopReason, str] = {
    "end": "end_turn",
    "tools": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
}


# ── reading ──────────────────────────────────────────────────────────────────────────────────


class _Block(Struct):
    type: str = "text"
    text: str = ""
    id: str = ""
    content: Any = None


class _Message(Struct):
    role: str
    content: str | list[_Block]


class _Tool(Struct):
    name: str = ""


class _Body(Struct):
    model: str
    messages: list[_Message]
    system: Any = None
    tools: list[_Tool] = []
    stream: bool = False


def read(body: bytes) -> Asked:
    """Read a request."""
    form = read_form(body, _Body)
    entries = [Entry("system", texts_of(form.system))] if form.system else []
    for message in form.messages:
        entries += _entries(message)
    return Asked(
        model=form.model,
        entries=tuple(entries),
        tools=tuple(tool.name for tool in form.tools),
        streaming=form.stream,
    )


def _entries(message: _Message) -> Iterator[Entry]:
    blocks = message.content
    if isinstance(blocks, str):
        blocks = [_Block(text=blocks)]
    for block in blocks:
        if block.type == "tool_result":
            yield Entry("tool", texts_of(block.content))
    texts = tuple(block.text for block in blocks if block.type == "text" and block.text)
    if message.role == "assistant":
        calls = tuple(block.id for block in blocks if block.type == "tool_use")
        yield Entry("model", texts, calls)
    elif texts:
        # Claude Code also tells the model things in messages of the system's own.
        yield Entry("user" if message.role == "user" else "system", texts)


# ── answering ────────────────────────────────────────────────────────────────────────────────


class MessagesSpeaker(Speaker):
    """From message_start to message_stop."""

    _content: list[dict[str, Any]]
    _message: dict[str, Any]

    def begin(self) -> Iterator[bytes]:
        """Begin the message."""
        self._content = []
        self._message = {
            "model": self.asked.model,
            "id": self.naming.name("msg_"),
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": self._usage(1),
        }
        yield _event("message_start", message=self._message)
        yield _event("ping")

    def say(self, text: str) -> Iterator[bytes]:
        """Make a text block."""
        told = [{"type": "text_delta", "text": piece} for piece in deltas(text)]
        return self._block({"type": "text", "text": ""}, told, {"text": text})

    def think(self, text: str) -> Iterator[bytes]:
        """Make a block of thinking, with a signature as if it were a real one."""
        signature = self.naming.name("", 64)
        told = [{"type": "thinking_delta", "thinking": piece} for piece in deltas(text)]
        return self._block(
            {"type": "thinking", "thinking": "", "signature": ""},
            [*told, {"type": "signature_delta", "signature": signature}],
            {"thinking": text, "signature": signature},
        )

    def call(self, tool: Tool, position: int) -> Iterator[bytes]:
        """Make a tool_use block."""
        assert isinstance(tool.input, dict)
        block = {
            "type": "tool_use",
            "id": self.naming.name_call("toolu", self.turn.number, position),
            "name": tool.name,
            "input": {},
        }
        pieces = ["", *deltas(encode(tool.input).decode())]
        told = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return self._block(block, told, {"input": tool.input})

    def _block(
        self, start: dict[str, Any], told: list[dict[str, str]], done: dict[str, Any]
    ) -> Iterator[bytes]:
        index = len(self._content)
        yield _event("content_block_start", index=index, content_block=start)
        for delta in told:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
        self._content.append({**start, **done})

    def end(self, stop: StopReason) -> Iterator[bytes]:
        """End the message, with the tokens it took."""
        self._message["content"] = self._content
        self._message["stop_reason"] = _STOPS[stop]
        self._message["usage"] = usage = self._usage(self.usage.output)
        delta = {"stop_reason": _STOPS[stop], "stop_sequence": None}
        yield _event("message_delta", delta=delta, usage=usage)
        yield _event("message_stop")

    def fail(self, error: Error) -> Iterator[bytes]:
        """Tell of an error in mid-message."""
        yield sse(refuse(error).document, "error")

    def whole(self) -> Any:
        """Give the message."""
        return self._message

    def _usage(self, output: int) -> dict[str, Any]:
        written = self.usage.cache_write
        return {
            "input_tokens": self.usage.input,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": self.usage.cache_read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written,
                "ephemeral_1h_input_tokens": 0,
            },
            "output_tokens": output,
            "output_tokens_details": {"thinking_tokens": self.usage.thinking},
            "service_tier": "standard",
        }


def _event(name: str, **members: Any) -> bytes:
    return sse({"type": name, **members}, name)


def refuse(error: Error) -> Refused:
    """Refuse a call."""
    fault = FAULTS[error.kind]
    document = {
        "type": "error",
        "error": {"type": fault.word, "message": error.message or fault.message},
    }
    if error.retry is None:
        error = replace(error, retry=error.kind in _PASSING)
    return Refused(error.status or fault.status, document, advice(error))


def count(asked: Asked) -> Any:
    """Answer `/v1/messages/count_tokens`."""
    return {"input_tokens": asked.words}


ANTHROPIC = Dialect("anthropic", read, MessagesSpeaker, refuse, count)
