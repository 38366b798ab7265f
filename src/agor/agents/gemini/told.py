"""What a record of Gemini CLI says, as blocks. Pure.

A message of the model is written when it is whole; its tool calls are added as they end, also to
messages before the last. So the order is that of the first line in which something appears.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from agor.agents.acp.calls import bounded
from agor.agents.gemini.calls import response_text, thought
from agor.protocol.events import BlockKind
from agor.protocol.transcripts import TranscriptBlock

#: What it puts before the conversation itself.
_CONTEXT = ("<session_context>", "<hook_context>")

Line = dict[str, Any]


def tell(lines: Iterable[Line]) -> list[TranscriptBlock]:
    """Tell a record as the blocks that were told live."""
    told = _Told()
    for line in lines:
        told.take(line)
    return told.blocks


class _Told:
    def __init__(self) -> None:
        self.blocks: list[TranscriptBlock] = []
        self._messages: set[str] = set()
        self._calls: set[str] = set()

    def take(self, line: Line) -> None:
        """Tell what is new in a line."""
        kind, name = line.get("type"), line.get("id")
        if kind == "user" and name not in self._messages:
            self._user(_parts(line))
        elif kind == "gemini":
            if name not in self._messages:
                self._model(line)
            for call in _dicts(line.get("toolCalls")):
                self._call(call)
        if isinstance(name, str):
            self._messages.add(name)

    def _user(self, parts: list[Line]) -> None:
        for part in parts:
            response = part.get("functionResponse")
            if isinstance(response, dict):
                self._denied(response)
        text = _text(parts)
        if text.strip() and not text.startswith(_CONTEXT):
            self.blocks.append(TranscriptBlock(kind="user_message", text=text))

    def _model(self, line: Line) -> None:
        for each in _dicts(line.get("thoughts")):
            subject, words = str(each.get("subject", "")), str(each.get("description", ""))
            self._say("thinking", thought(subject, words))
        self._say("text", _text(_parts(line)))

    def _say(self, kind: BlockKind, text: str) -> None:
        """Begin a block, or go on with one of the same kind, as it is done live."""
        if not text:
            return
        last = self.blocks[-1] if self.blocks else None
        if last is not None and last.kind == kind:
            self.blocks[-1] = msgspec.structs.replace(last, text=last.text + text)
        else:
            self.blocks.append(TranscriptBlock(kind=kind, text=text))

    def _call(self, call: Line) -> None:
        args = call.get("args")
        response = _response(call)
        tool_input = bounded(args) if isinstance(args, dict) else {}
        failed = call.get("status") != "success"
        self._use(call.get("id"), call.get("name"), tool_input, response, is_error=failed)

    def _denied(self, response: Line) -> None:
        """Tell a call of which only the answer is kept; all others were told with theirs."""
        answer = response.get("response")
        words = answer if isinstance(answer, dict) else {}
        self._use(response.get("id"), response.get("name"), None, words, is_error=True)

    def _use(
        self,
        name: object,
        tool: object,
        tool_input: Line | None,
        response: Line,
        *,
        is_error: bool,
    ) -> None:
        call_id = str(name)
        if call_id in self._calls:
            return
        self._calls.add(call_id)
        self.blocks += [
            TranscriptBlock(
                kind="tool_use", tool_use_id=call_id, tool_name=str(tool), tool_input=tool_input
            ),
            TranscriptBlock(
                kind="tool_result",
                tool_use_id=call_id,
                text=response_text(response),
                is_error=is_error,
            ),
        ]


def calls_in(lines: Iterable[Line]) -> dict[str, tuple[Line, Line]]:
    """Find the tool calls that are over: input and answer by id."""
    found = {}
    for line in lines:
        for call in _dicts(line.get("toolCalls")):
            args = call.get("args")
            found[str(call.get("id"))] = (args if isinstance(args, dict) else {}, _response(call))
    return found


def count_replayed(lines: Iterable[Line]) -> int:
    """Count the updates with which Gemini CLI replays a record."""
    messages: dict[str, Line] = {}
    for line in lines:
        changes = line.get("$set")
        if isinstance(changes, dict) and isinstance(changes.get("messages"), list):
            messages = {str(each.get("id")): each for each in _dicts(changes["messages"])}
        elif isinstance(line.get("id"), str):
            messages[line["id"]] = line
    return sum(_replayed(message) for message in messages.values())


def _replayed(message: Line) -> int:
    parts = _parts(message)
    # Other parts than texts are shown in some way, too.
    said = bool(_text(parts).strip()) or any("text" not in part for part in parts)
    if message.get("type") == "user":
        return int(said)
    if message.get("type") != "gemini":
        return 0
    return int(said) + len(_dicts(message.get("thoughts"))) + len(_dicts(message.get("toolCalls")))


def _response(call: Line) -> Line:
    for part in _dicts(call.get("result")):
        response = part.get("functionResponse")
        if isinstance(response, dict) and isinstance(response.get("response"), dict):
            return dict(response["response"])
    return {}


def _parts(line: Line) -> list[Line]:
    content = line.get("content")
    return [{"text": content}] if isinstance(content, str) else _dicts(content)


def _text(parts: list[Line]) -> str:
    return "".join(str(part["text"]) for part in parts if "text" in part)


def _dicts(value: object) -> list[Line]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
