"""Updates of ACP agents as blocks, whatever they tell and leave out."""

from __future__ import annotations

from typing import Any

import pytest
from acp.schema import SessionNotification

from agor.agents.acp.blocks import Add, Blocks, Change, End, Naming, Start, Step
from agor.errors import AgentFailed


def update(what: str, **members: Any) -> Any:
    told = {"sessionUpdate": what, **members}
    return SessionNotification.model_validate({"sessionId": "s", "update": told}).update


def text(what: str, words: str, **more: Any) -> Any:
    return update(what, content={"type": "text", "text": words}, **more)


def steps(*updates: Any, replayed: bool = False) -> list[Step]:
    blocks = Blocks(Naming(), replayed=replayed)
    found = [step for each in updates for step in blocks.take(each)]
    return [*found, *blocks.finish()]


def told(*updates: Any, replayed: bool = False) -> list[tuple[str, str]]:
    """Kind and text of each block."""
    kinds: dict[str, str] = {}
    texts: dict[str, str] = {}
    for step in steps(*updates, replayed=replayed):
        if isinstance(step, Start):
            kinds[step.key], texts[step.key] = step.kind, ""
        elif isinstance(step, Add):
            texts[step.key] += step.text
    return [(kinds[key], texts[key]) for key in kinds]


def started(*updates: Any) -> dict[str, Any]:
    (start,) = [
        each for each in steps(*updates) if isinstance(each, Start) and each.kind == "tool_use"
    ]
    return start.members


def test_text_and_thinking_are_blocks_of_their_own_and_go_on_until_the_other_comes() -> None:
    assert told(
        text("agent_thought_chunk", "a "),
        text("agent_thought_chunk", "b"),
        text("agent_message_chunk", "c "),
        text("agent_message_chunk", ""),
        text("agent_message_chunk", "d"),
        text("agent_thought_chunk", "e"),
    ) == [("thinking", "a b"), ("text", "c d"), ("thinking", "e")]


def test_another_message_is_another_block() -> None:
    first = text("agent_message_chunk", "a", messageId="1")
    assert told(first, text("agent_message_chunk", "b", messageId="2")) == [
        ("text", "a"), ("text", "b"),
    ]  # fmt: skip


def test_what_the_user_said_is_told_when_it_is_replayed_and_not_live() -> None:
    said = text("user_message_chunk", "hello")
    assert told(said) == []
    assert told(said, replayed=True) == [("user_message", "hello")]


def test_a_call_is_told_with_its_result_and_its_input_once_it_is_known() -> None:
    found = steps(
        update("tool_call", toolCallId="1", title="Write", kind="edit", status="pending"),
        update("tool_call_update", toolCallId="1", rawInput={"path": "a"}),
        update("tool_call_update", toolCallId="1", status="completed", rawOutput="written"),
    )
    assert [type(each).__name__ for each in found] == [
        "Start", "Change", "Change", "End", "Start", "Add", "End",
    ]  # fmt: skip
    assert found[1] == Change("1", "running", {"path": "a"})
    assert found[2] == Change("1", "completed")
    assert isinstance(found[5], Add)
    assert found[5].text == "written"


def test_an_update_of_a_call_that_was_never_begun_begins_it() -> None:
    found = told(update("tool_call_update", toolCallId="1", status="failed", rawOutput="no"))
    assert found == [("tool_use", ""), ("tool_result", "no")]


def test_a_call_that_never_ends_has_failed_when_the_turn_is_over() -> None:
    found = steps(update("tool_call", toolCallId="1", title="x"))
    assert found[1:] == [Change("1", "failed"), End("1")]


@pytest.mark.parametrize(
    ("members", "name", "tool_input"),
    [
        ({"_meta": {"claudeCode": {"toolName": "Write"}}, "kind": "edit"}, "Write", {"title": "t"}),
        ({"kind": "execute"}, "execute", {"command": "t"}),
        ({"kind": "other"}, "t", {"title": "t"}),
        ({"rawInput": ["x"]}, "t", {"input": ["x"]}),
        ({"kind": "read", "locations": [{"path": "/b"}, {"path": "/a"}]}, "read",
         {"title": "t", "paths": ["/a", "/b"]}),
        ({"kind": "edit", "content": [{"type": "diff", "path": "/a", "newText": "n"}]}, "edit",
         {"title": "t", "file_path": "/a", "content": "n"}),
    ],
)  # fmt: skip
def test_a_tool_has_a_name_and_an_input_whatever_is_told_of_it(
    members: dict[str, Any], name: str, tool_input: dict[str, Any]
) -> None:
    found = started(update("tool_call", toolCallId="1", title="t", **members))
    assert (found["tool_name"], found["tool_input"]) == (name, tool_input)


def test_a_giant_input_is_left_out_and_the_reader_told_so() -> None:
    giant = {"content": "x" * 5_000_000}
    found = started(update("tool_call", toolCallId="1", title="t", rawInput=giant))
    assert found["tool_input"] == {"left_out": "an input of 5000015 characters"}


def test_what_a_sub_agent_does_carries_the_call_that_started_it() -> None:
    meta = {"claudeCode": {"parentToolUseId": "9"}}
    found = started(update("tool_call", toolCallId="1", title="t", _meta=meta))
    assert found["parent_tool_use_id"] == "9"


def test_a_plan_is_a_list() -> None:
    entries = [
        {"content": "one", "priority": "high", "status": "completed"},
        {"content": "two", "priority": "low", "status": "pending"},
    ]
    assert told(update("plan", entries=entries)) == [("system", "- [x] one\n- [ ] two")]


def test_calls_without_end_are_too_many() -> None:
    with pytest.raises(AgentFailed, match="more than 1000 tool calls"):
        steps(*(update("tool_call", toolCallId=str(n), title="t") for n in range(1001)))
