"""Asks the answering part of the model server, without a connection, and reads what it says."""

from __future__ import annotations

import json
import re
from typing import Any

from agor.testing.model.answering import Answer, Answering, Question
from agor.testing.model.playing import Fault, Piece, Wait

NOW = 1_800_000_000
#: Random parts of ids, which are made of the seed.
_RANDOM = re.compile(r"[0-9a-f]{12,}")

MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"
CHAT = "/v1/chat/completions"
GEMINI = "/v1beta/models/m:generateContent"
GEMINI_STREAM = "/v1beta/models/m:streamGenerateContent?alt=sse"


def scripted(*turns: Any) -> str:
    """What a user writes to have these turns played."""
    return "Please play this: " + json.dumps({"model_script": turns}) + " Thank you."


def body_of(target: str, prompt: str, *, stream: bool, tools: bool = True) -> dict[str, Any]:
    """The first request of a conversation, in the words of the API at `target`."""
    message = {"role": "user", "content": prompt}
    if target == MESSAGES:
        offered: Any = [{"name": "Write", "input_schema": {}}]
        return _with({"model": "m", "stream": stream, "messages": [message]}, offered, tools)
    if target == RESPONSES:
        offered = [{"type": "function", "name": "write"}]
        return _with({"model": "m", "stream": stream, "input": [message]}, offered, tools)
    if target == CHAT:
        offered = [{"type": "function", "function": {"name": "write"}}]
        body = {"model": "m", "stream": stream, "messages": [message]}
        if stream:
            body["stream_options"] = {"include_usage": True}
        return _with(body, offered, tools)
    offered = [{"functionDeclarations": [{"name": "write_file"}]}]
    return _with({"contents": [{"role": "user", "parts": [{"text": prompt}]}]}, offered, tools)


def _with(body: dict[str, Any], offered: Any, tools: bool) -> dict[str, Any]:
    return body | {"tools": offered} if tools else body


def question(target: str, body: Any, headers: dict[str, str] | None = None) -> Question:
    return Question("POST", target, headers or {}, json.dumps(body).encode())


def ask(target: str, body: Any, answering: Answering | None = None) -> Answer:
    answering = answering or Answering(seed="seed")
    return answering.answer(question(target, body), number=1, now=NOW)


def ask_script(target: str, *turns: Any, stream: bool = True) -> Answer:
    """Ask for the first turn of a script."""
    target = GEMINI if target == GEMINI_STREAM and not stream else target
    return ask(target, body_of(target, scripted(*turns), stream=stream))


def sent(answer: Answer) -> bytes:
    """All the bytes of an answer."""
    return b"".join(piece for piece in answer.pieces if isinstance(piece, bytes))


def document(answer: Answer) -> Any:
    """An answer that is one document, with its ids made plain."""
    return json.loads(_RANDOM.sub("#", sent(answer).decode()))


def events(answer: Answer) -> list[tuple[str | None, Any]]:
    """The events of a stream: their names, and their data with its ids made plain."""
    found = []
    text = _RANDOM.sub("#", sent(answer).decode())
    assert text.endswith("\n\n")
    for event in text.removesuffix("\n\n").split("\n\n"):
        lines = dict(line.split(": ", 1) for line in event.split("\n"))
        data = lines["data"]
        found.append((lines.get("event"), data if data == "[DONE]" else json.loads(data)))
    return found


def doings(answer: Answer) -> list[Piece]:
    """What is done beside sending."""
    return [piece for piece in answer.pieces if isinstance(piece, Wait | Fault)]
