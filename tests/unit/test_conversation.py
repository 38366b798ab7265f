"""The state of a session from its feed: what each event changes, and what changes nothing."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agor.protocol.api import DAEMON_EVENTS, FeedEvent, Message, Session
from agor.protocol.conversation import LONGEST_TEXT, Conversation, Text, read_event
from agor.protocol.events import EVENT_FORMS

SESSION = {
    "session_id": "s", "status": "idle", "agentic_tool": "scripted", "workspace": "/",
    "title": None, "permission_mode": "default", "model": None, "environment": "local",
    "user_id": "u", "created_at": 1, "updated_at": 1,
}  # fmt: skip
TASK = {
    "task_id": "t", "session_id": "s", "user_id": "u", "status": "running",
    "permission_mode": "default", "model": None, "queue_position": None,
    "created_at": 1, "started_at": 2, "ended_at": None,
    "executor_id": "e", "message_count": None, "token_usage": None, "cost": None, "error": None,
    "survivors": None,
}  # fmt: skip
PERMISSION: dict[str, Any] = {
    "permission_id": "p", "session_id": "s", "task_id": "t", "tool_name": "Write",
    "tool_input": {}, "tool_use_id": None, "status": "pending", "created_at": 1, "expires_at": 2,
    "decided_at": None, "decided_by": None, "decided_rule": None, "reason": None,
    "updated_input": None,
}  # fmt: skip

#: Type, data, and the task if it is another one.
Told = tuple[Any, ...]


def told(*events: Told) -> Conversation:
    """Take events, of the task `t` unless they name another."""
    conversation = Conversation()
    for sequence, (kind, data, *task) in enumerate(events, 1):
        conversation.take(FeedEvent(sequence, kind, task[0] if task else "t", data, 0))
    return conversation


def start(block_id: str = "b", **members: Any) -> Told:
    return "block_start", {"block_id": block_id, "kind": "text", **members}


def delta(text: str, block_id: str = "b") -> Told:
    return "block_delta", {"block_id": block_id, "index": 0, "text": text}


def complete(length: int, block_id: str = "b", **members: Any) -> Told:
    return "block_complete", {"block_id": block_id, "deltas": 1, "length": length, **members}


def update(block_id: str = "b", **members: Any) -> Told:
    return "block_update", {"block_id": block_id, **members}


def texts(conversation: Conversation) -> list[str]:
    return [message.text for message in conversation.messages]


def test_a_block_is_all_that_was_told_of_it() -> None:
    conversation = told(
        start(tool_use_id="u", tool_name="Write", tool_input={"a": 1}, parent_tool_use_id="v"),
        delta("one "),
        update(status="running"),
        delta("two"),
        update(reason="why", tool_input={"a": 2}),
        complete(7, is_error=True),
    )
    assert conversation.sequence == 6
    assert conversation.messages == [
        Message(
            message_id="b", task_id="t", kind="text", parent_tool_use_id="v", tool_use_id="u",
            tool_name="Write", tool_input={"a": 2}, status="running", reason="why",
            text="one two", length=7, complete=True, is_error=True, sequence=1,
        )
    ]  # fmt: skip


def test_a_block_that_is_still_told_is_shown_as_far_as_it_is() -> None:
    (message,) = told(start(), delta("ab"), delta("c")).messages
    assert (message.text, message.length, message.complete) == ("abc", 3, False)


def test_blocks_are_in_the_order_in_which_they_began() -> None:
    conversation = told(start("z"), start("a"), delta("1", "a"), delta("2", "z"))
    assert texts(conversation) == ["2", "1"]


def test_no_task_adds_to_what_another_one_says() -> None:
    conversation = told(start(), (*delta("not mine"), "other"), delta("mine"))
    assert texts(conversation) == ["mine"]


def test_the_same_id_again_begins_another_block() -> None:
    conversation = told(start(), delta("one"), start(), delta("two"), complete(3), delta("three"))
    assert texts(conversation) == ["one", "two"]
    assert [message.complete for message in conversation.messages] == [False, True]


def test_nothing_changes_a_block_that_is_complete() -> None:
    conversation = told(
        start(), delta("x"), complete(1), delta("y"), update(status="failed"), complete(9)
    )
    (message,) = conversation.messages
    assert (message.text, message.status, message.length) == ("x", None, 1)


def test_what_was_said_of_a_block_that_never_began_is_nowhere() -> None:
    assert told(delta("x"), update(status="failed"), complete(1)).messages == []


def test_the_session_its_tasks_and_its_questions_are_as_they_were_told_last() -> None:
    conversation = told(
        ("session", SESSION), ("task", TASK), ("permission", PERMISSION),
        ("session", SESSION | {"status": "running"}), ("task", TASK | {"status": "completed"}),
        ("task", TASK | {"task_id": "t2"}), ("permission", PERMISSION | {"status": "denied"}),
    )  # fmt: skip
    assert conversation.session == msgspec.convert(SESSION | {"status": "running"}, Session)
    assert {name: task.status for name, task in conversation.tasks.items()} == {
        "t": "completed",
        "t2": "running",
    }
    assert [asked.status for asked in conversation.permissions.values()] == ["denied"]


def test_a_text_is_kept_up_to_a_bound_and_says_so() -> None:
    text = Text()
    text.add("x" * (LONGEST_TEXT - 1))
    text.add("y")
    assert (len(str(text)), text.length, text.full) == (LONGEST_TEXT, LONGEST_TEXT, False)
    text.add("z" * 10)
    text.add("z")
    assert (len(str(text)), text.length, text.full) == (LONGEST_TEXT, LONGEST_TEXT + 1, True)
    assert str(text).endswith("xy")


# ── whatever comes ───────────────────────────────────────────────────────────────────────────────

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
members = st.sampled_from(
    ["block_id", "kind", "index", "text", "status", "tool_input", "length", "deltas", "task_id"]
)
data = values | st.dictionaries(members, st.sampled_from(["b", "text", 0, None, {}]) | values)
kinds = st.sampled_from([*EVENT_FORMS, *DAEMON_EVENTS, "", "unheard of"])


@given(st.lists(st.tuples(kinds, data, st.sampled_from(["t", "other", None])), max_size=10))
def test_no_event_is_an_error_and_none_of_another_task_changes_a_block(events: list[Any]) -> None:
    conversation = told(start(), delta("kept"))
    before = conversation.messages
    for sequence, (kind, given_data, task) in enumerate(events, 3):
        conversation.take(FeedEvent(sequence, kind, task, given_data, 0))
    if not any(task == "t" for _, _, task in events):
        assert conversation.messages[:1] == before
    assert all(isinstance(message, Message) for message in conversation.messages)


@given(st.lists(st.text(), max_size=8))
def test_a_text_is_the_pieces_it_was_told_in(pieces: list[str]) -> None:
    (message,) = told(start(), *map(delta, pieces)).messages
    assert message.text == "".join(pieces)
    assert message.length == sum(map(len, pieces))


# ── from bytes ───────────────────────────────────────────────────────────────────────────────────


def spelled(kind: str, data: str) -> str:
    return f'{{"sequence":1,"type":"{kind}","task_id":"t","data":{data},"created_at":5}}'


def test_an_event_is_read_as_it_is_spelled() -> None:
    event = read_event(spelled("log", '{"level":"info","message":"ä😀\\u0000"}'))
    assert event == FeedEvent(1, "log", "t", {"level": "info", "message": "ä😀\0"}, 5)


@pytest.mark.parametrize("odd", ["9" * 5000, "1e999", "-1e999"])
def test_numbers_that_are_no_values_do_not_hide_what_is_told_beside_them(odd: str) -> None:
    event = read_event(spelled("block_delta", f'{{"block_id":"b","index":0,"text":"x","y":{odd}}}'))
    assert event.data == {"block_id": "b", "index": 0, "text": "x"}


@pytest.mark.parametrize("kind", ["block_delta", "log", "session", "unheard of"])
def test_data_that_cannot_be_read_is_none(kind: str) -> None:
    assert read_event(spelled(kind, f'{{"block_id":{"9" * 5000}}}')).data is None


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", spelled("log", "{"), '{"sequence":"1"}', b"\xff", "[" * 100_000]
)
def test_what_is_no_event_is_refused(body: str | bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError, RecursionError)):
        read_event(body)


def test_a_conversation_can_be_looked_at_while_it_goes_on() -> None:
    conversation = Conversation()
    shown = []
    for sequence, (kind, given_data) in enumerate(
        itertools.chain([start()], map(delta, "abc"), [complete(3)]), 1
    ):
        conversation.take(FeedEvent(sequence, kind, "t", given_data, 0))
        shown += texts(conversation)
    assert shown == ["", "a", "ab", "abc", "abc"]
