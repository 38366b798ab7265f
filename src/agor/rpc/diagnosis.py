"""Says what is wrong with a line that is not a JSON-RPC message. Pure, and off the hot path."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

from agor.errors import InvalidRequest, ParseError, RpcError
from agor.protocol.envelope import IntegerId, Message, RequestId, StringId
from agor.protocol.validation import UNREADABLE, name_the_field

_decode_message = msgspec.json.Decoder(Message).decode


class Fault(NamedTuple):
    """The error to answer with, and whose request it concerns if that can be told."""

    error: RpcError
    request_id: RequestId
    #: It was no call but a spoiled answer to one of ours; answering it would help nobody.
    meant_as_answer: bool


def diagnose(text: bytes) -> Fault:
    """Tell bytes that are no JSON from JSON that is no message."""
    try:
        text.decode()
        value = msgspec.json.decode(text)
    except UNREADABLE as error:
        members = _members(_read_leniently(text))
        whose = _readable_id(members) if _looks_like_answer(members) else None
        what = name_the_field(error, "line")
        return Fault(ParseError(what), whose, _looks_like_answer(members))
    try:
        _decode_message(text)
        what = "message: not a JSON-RPC 2.0 message"
    except UNREADABLE as error:
        what = name_the_field(error, "message")
    members = _members(value)
    return Fault(InvalidRequest(what), _readable_id(members), _looks_like_answer(members))


def _read_leniently(text: bytes) -> object:
    """Make out what bad JSON means, if only to find who waits for it in vain."""
    try:
        return json.loads(text.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def _members(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _looks_like_answer(members: dict[str, Any]) -> bool:
    called = isinstance(members.get("method"), str)
    return not called and ("result" in members or "error" in members)


def _readable_id(members: dict[str, Any]) -> RequestId:
    try:
        request_id: RequestId = msgspec.convert(members.get("id"), IntegerId | StringId | None)
    except msgspec.ValidationError:
        return None
    return request_id
