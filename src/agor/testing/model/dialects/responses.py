"""OpenAI Responses: `/v1/responses`, as Codex calls it: how a call is read.

How it is answered is in `response_items`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from agor.testing.model.asked import Asked, Entry
from agor.testing.model.dialects.base import Dialect, read_form, texts_of
from agor.testing.model.dialects.openai import refuse
from agor.testing.model.dialects.response_items import ResponseSpeaker


class _Tool(Struct):
    #: Tools of OpenAI's own have only a type.
    type: str = ""
    name: str = ""


class _Item(Struct):
    type: str = "message"
    role: str = ""
    content: Any = None
    output: Any = None
    call_id: str = ""
    #: Newer models are offered their tools along the way.
    tools: list[_Tool] | None = None


class _Body(Struct):
    model: str
    input: str | list[_Item] = ""
    instructions: str | None = None
    tools: list[_Tool] | None = None
    stream: bool | None = False


def read(body: bytes) -> Asked:
    """Read a request."""
    form = read_form(body, _Body)
    items = [_Item(role="user", content=form.input)] if isinstance(form.input, str) else form.input
    entries = [Entry("system", (form.instructions,))] if form.instructions else []
    offered = [*(form.tools or ()), *(tool for item in items for tool in item.tools or ())]
    return Asked(
        model=form.model,
        entries=(*entries, *(_entry(item) for item in items)),
        tools=tuple(tool.name or tool.type for tool in offered),
        streaming=bool(form.stream),
    )


def _entry(item: _Item) -> Entry:
    if item.type.endswith("_output"):
        return Entry("tool", texts_of(item.output))
    if item.type == "additional_tools":
        return Entry("system")
    if item.type == "agent_message":
        # What agents tell each other is sealed by the model; ours seals nothing.
        sealed = (part.get("encrypted_content") for part in item.content or ())
        return Entry("user", tuple(text for text in sealed if isinstance(text, str)))
    if item.type != "message" or item.role == "assistant":
        # Reasoning and calls of any sort: all of it is the model's.
        return Entry("model", texts_of(item.content), (item.call_id,) if item.call_id else ())
    return Entry("user" if item.role == "user" else "system", texts_of(item.content))


def count(asked: Asked) -> Any:
    """Answer `/v1/responses/input_tokens`."""
    return {"object": "response.input_tokens", "input_tokens": asked.words}


RESPONSES = Dialect(
    "responses",
    read,
    ResponseSpeaker,
    refuse,
    count,
    # This API begins to stream before it looks at the length of what it was given.
    told_in_stream=frozenset({"context_full"}),
    has_text_tools=True,
)
