"""The answer of OpenAI's Responses API: items that are added, filled by deltas, and done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agor.testing.model.dialects.openai import in_response
from agor.testing.model.playing import Speaker, deltas, encode, sse
from agor.testing.model.script import Error, StopReason, Tool

_INCOMPLETE: dict[StopReason, str] = {"length": "max_output_tokens", "refusal": "content_filter"}


class ResponseSpeaker(Speaker):
    """From response.created to response.completed."""

    _response: dict[str, Any]
    _output: list[dict[str, Any]]
    _sequence: int

    def begin(self) -> Iterator[bytes]:
        """Create the response."""
        self._sequence = 0
        self._output = []
        self._response = {
            "id": self.naming.name("resp_", 48),
            "object": "response",
            "created_at": self.now,
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "model": self.asked.model,
            "output": [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": False,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": None,
            "user": None,
            "metadata": {},
        }
        yield self._event("response.created", response=self._response)
        yield self._event("response.in_progress", response=self._response)

    def say(self, text: str) -> Iterator[bytes]:
        """Add a message."""
        item = {
            "id": self.naming.name("msg_", 48),
            "type": "message",
            "status": "in_progress",
            "content": [],
            "role": "assistant",
        }
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
        done = {**part, "text": text}
        at = self._place(item) | {"content_index": 0}
        yield self._added(item)
        yield self._event("response.content_part.added", **at, part=part)
        for piece in deltas(text):
            yield self._event("response.output_text.delta", **at, delta=piece, logprobs=[])
        yield self._event("response.output_text.done", **at, text=text, logprobs=[])
        yield self._event("response.content_part.done", **at, part=done)
        yield self._done({**item, "status": "completed", "content": [done]})

    def think(self, text: str) -> Iterator[bytes]:
        """Add reasoning: what is told of it is a summary."""
        item = {
            "id": self.naming.name("rs_", 48),
            "type": "reasoning",
            "encrypted_content": self.naming.name("", 64),
            "summary": [],
        }
        part = {"type": "summary_text", "text": ""}
        done = {**part, "text": text}
        at = self._place(item) | {"summary_index": 0}
        yield self._added(item)
        yield self._event("response.reasoning_summary_part.added", **at, part=part)
        for piece in deltas(text):
            yield self._event("response.reasoning_summary_text.delta", **at, delta=piece)
        yield self._event("response.reasoning_summary_text.done", **at, text=text)
        yield self._event("response.reasoning_summary_part.done", **at, part=done)
        yield self._done({**item, "summary": [done]})

    def call(self, tool: Tool, position: int) -> Iterator[bytes]:
        """Add a call, of a function or, with text as its input, of a custom tool."""
        custom = isinstance(tool.input, str)
        sort, member = ("custom_tool_call", "input") if custom else ("function_call", "arguments")
        told = tool.input if isinstance(tool.input, str) else encode(tool.input).decode()
        item = {
            "id": self.naming.name("ctc_" if custom else "fc_", 48),
            "type": sort,
            "status": "in_progress",
            member: "",
            "call_id": self.naming.name_call("call", self.turn.number, position),
            "name": tool.name,
        }
        if tool.namespace is not None:
            item["namespace"] = tool.namespace
        at = self._place(item)
        yield self._added(item)
        for piece in deltas(told):
            yield self._event(f"response.{sort}_{member}.delta", **at, delta=piece)
        yield self._event(f"response.{sort}_{member}.done", **at, **{member: told})
        yield self._done({**item, "status": "completed", member: told})

    def end(self, stop: StopReason) -> Iterator[bytes]:
        """Complete the response, or leave it incomplete for a reason."""
        reason = _INCOMPLETE.get(stop)
        status = "incomplete" if reason else "completed"
        self._response |= {
            "status": status,
            "incomplete_details": {"reason": reason} if reason else None,
            "output": self._output,
            "usage": self._usage(),
        }
        yield self._event(f"response.{status}", response=self._response)

    def fail(self, error: Error) -> Iterator[bytes]:
        """Tell that the response failed."""
        failed = {"status": "failed", "error": in_response(error), "output": self._output}
        yield self._event("response.failed", response=self._response | failed)

    def whole(self) -> Any:
        """Give the response."""
        return self._response

    def _place(self, item: dict[str, Any]) -> dict[str, Any]:
        return {"item_id": item["id"], "output_index": len(self._output)}

    def _added(self, item: dict[str, Any]) -> bytes:
        return self._event("response.output_item.added", output_index=len(self._output), item=item)

    def _done(self, item: dict[str, Any]) -> bytes:
        self._output.append(item)
        return self._event(
            "response.output_item.done", output_index=len(self._output) - 1, item=item
        )

    def _event(self, name: str, **members: Any) -> bytes:
        event = {"type": name, "sequence_number": self._sequence, **members}
        self._sequence += 1
        return sse(event, name)

    def _usage(self) -> dict[str, Any]:
        usage = self.usage
        return {
            "input_tokens": usage.all_input,
            "input_tokens_details": {
                "cached_tokens": usage.cache_read,
                "cache_write_tokens": usage.cache_write,
            },
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.thinking},
            "total_tokens": usage.all_input + usage.output,
        }
