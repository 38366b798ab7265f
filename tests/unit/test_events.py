"""Events: every type has its form, what is written is read back, what is wrong is named."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from agor.errors import InvalidParams
from agor.protocol.events import (
    EVENT_FORMS,
    EVENT_TYPES,
    BlockComplete,
    BlockDelta,
    BlockStart,
    BlockUpdate,
    Event,
    Log,
    MetadataUpdate,
    Problem,
    Status,
    TaskResult,
    TokenUsage,
    decode_event,
)

EVENTS: list[Event] = [
    BlockStart("b1", "text"),
    BlockStart("b2", "tool_use", "p", "t", "Bash", {"command": "ls", "n": [1, None]}),
    BlockDelta("b1", 0, "grüße 🎉\n\x00"),
    BlockUpdate("b2", "awaiting_permission"),
    BlockUpdate("b2", "running", {"command": "ls -l"}, "because"),
    BlockComplete("b1", 3, 12),
    BlockComplete("b2", 0, 0, is_error=True),
    MetadataUpdate("model", TokenUsage(1, 2, 3, 4), 0.25, "agent session"),
    MetadataUpdate(),
    Status("started"),
    Log("warning", "careful"),
    Problem("agent_failed", "it gave up", "try again"),
    TaskResult("completed", 3, TokenUsage(1, 2)),
    TaskResult("failed", 0, TokenUsage(), error=Problem("x", "y")),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_read_back_as_it_was_written(event: Event):
    raw = msgspec.json.encode(event)
    assert b"\n" not in raw
    assert decode_event(EVENT_TYPES[type(event)], Raw(raw)) == event


def test_every_event_type_of_the_wire_has_one_form():
    assert set(EVENT_FORMS) == {
        "block_start", "block_delta", "block_update", "block_complete", "metadata_update",
        "status", "log", "error", "task_result",
    }  # fmt: skip
    assert {form: name for name, form in EVENT_FORMS.items()} == EVENT_TYPES
    assert {type(event) for event in EVENTS} == set(EVENT_TYPES)


def test_members_that_say_nothing_are_not_written():
    assert msgspec.json.decode(msgspec.json.encode(BlockStart("b", "text"))) == {
        "block_id": "b",
        "kind": "text",
    }


def test_what_a_newer_end_adds_is_ignored():
    raw = Raw(b'{"block_id":"b","index":1,"text":"x","newer":true}')
    assert decode_event("block_delta", raw) == BlockDelta("b", 1, "x")


@pytest.mark.parametrize(
    ("event_type", "raw", "said"),
    [
        ("nonsense", b"{}", "params.event_type: there is no event 'nonsense'"),
        ("block_delta", b"{}", "params.event_data.block_id: required, but missing"),
        (
            "block_delta",
            b'{"block_id":"b","index":"1","text":"x"}',
            "params.event_data.index: expected `int`, got `str`",
        ),
        (
            "block_start",
            b'{"block_id":"b","kind":"poem"}',
            "params.event_data.kind: invalid enum value 'poem'",
        ),
        (
            "task_result",
            b'{"status":"completed","message_count":1,"token_usage":{"input":"x"}}',
            "params.event_data.token_usage.input: expected `int`, got `str`",
        ),
        ("log", b"5", "params.event_data: expected `object`, got `int`"),
        ("log", b'{"level":"info","message":"\xff"}', "params.event_data: not UTF-8"),
        ("log", b"[" * 5000, "params.event_data: "),
        ("log", b"", "params.event_data: "),
    ],
    ids=lambda part: repr(part)[:40],
)
def test_what_is_wrong_with_an_event_is_named(event_type: str, raw: bytes, said: str):
    with pytest.raises(InvalidParams) as caught:
        decode_event(event_type, Raw(raw))
    assert caught.value.message.startswith(said)


def test_events_cannot_be_changed_once_made():
    with pytest.raises(AttributeError):
        EVENTS[0].block_id = "other"  # type: ignore[union-attr,misc]
