"""OpenAI Responses: items that are added, filled and done; custom tools; failures."""

from __future__ import annotations

from typing import Any

from tests.model.asking import RESPONSES, ask, ask_script, body_of, document, events, scripted

TURN = [
    {"thinking": "Hm, well"},
    {"text": "Here it"},
    {"tool": {"name": "write", "input": {"n": 1}}},
    {"tool": {"name": "apply_patch", "input": "*** Begin"}},
    {"usage": {"input": 10, "output": 20, "cache_read": 3, "cache_write": 4, "thinking": 5}},
]
USAGE = {
    "input_tokens": 17,
    "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 37,
}
REASONING = {
    "id": "rs_#",
    "type": "reasoning",
    "encrypted_content": "#",
    "summary": [{"type": "summary_text", "text": "Hm, well"}],
}
PART = {"type": "output_text", "annotations": [], "logprobs": [], "text": "Here it"}
MESSAGE = {
    "id": "msg_#",
    "type": "message",
    "status": "completed",
    "content": [PART],
    "role": "assistant",
}
CALL = {
    "id": "fc_#",
    "type": "function_call",
    "status": "completed",
    "arguments": '{"n":1}',
    "call_id": "call_t0c0_#",
    "name": "write",
}
CUSTOM = {
    "id": "ctc_#",
    "type": "custom_tool_call",
    "status": "completed",
    "input": "*** Begin",
    "call_id": "call_t0c1_#",
    "name": "apply_patch",
}


def told(answer: Any) -> list[tuple[str, dict[str, Any]]]:
    """Events without what all of them have, which is checked here."""
    found = []
    for number, (name, data) in enumerate(events(answer)):
        assert data.pop("type") == name
        assert data.pop("sequence_number") == number
        found.append((str(name).removeprefix("response."), data))
    return found


def test_a_stream_is_what_the_real_one_is():
    created, in_progress, *items, completed = told(ask_script(RESPONSES, TURN))
    assert [created[0], in_progress[0], completed[0]] == ["created", "in_progress", "completed"]
    assert created[1]["response"]["status"] == "in_progress"
    assert created[1]["response"]["output"] == []
    thought = {"item_id": "rs_#", "output_index": 0, "summary_index": 0}
    said = {"item_id": "msg_#", "output_index": 1, "content_index": 0}
    called = {"item_id": "fc_#", "output_index": 2}
    patched = {"item_id": "ctc_#", "output_index": 3}
    assert items == [
        ("output_item.added", {"output_index": 0, "item": REASONING | {"summary": []}}),
        (
            "reasoning_summary_part.added",
            {**thought, "part": {"type": "summary_text", "text": ""}},
        ),
        ("reasoning_summary_text.delta", {**thought, "delta": "Hm, "}),
        ("reasoning_summary_text.delta", {**thought, "delta": "well"}),
        ("reasoning_summary_text.done", {**thought, "text": "Hm, well"}),
        (
            "reasoning_summary_part.done",
            {**thought, "part": {"type": "summary_text", "text": "Hm, well"}},
        ),
        ("output_item.done", {"output_index": 0, "item": REASONING}),
        (
            "output_item.added",
            {"output_index": 1, "item": MESSAGE | {"status": "in_progress", "content": []}},
        ),
        ("content_part.added", {**said, "part": PART | {"text": ""}}),
        ("output_text.delta", {**said, "delta": "Here ", "logprobs": []}),
        ("output_text.delta", {**said, "delta": "it", "logprobs": []}),
        ("output_text.done", {**said, "text": "Here it", "logprobs": []}),
        ("content_part.done", {**said, "part": PART}),
        ("output_item.done", {"output_index": 1, "item": MESSAGE}),
        (
            "output_item.added",
            {"output_index": 2, "item": CALL | {"status": "in_progress", "arguments": ""}},
        ),
        ("function_call_arguments.delta", {**called, "delta": '{"n":1}'}),
        ("function_call_arguments.done", {**called, "arguments": '{"n":1}'}),
        ("output_item.done", {"output_index": 2, "item": CALL}),
        (
            "output_item.added",
            {"output_index": 3, "item": CUSTOM | {"status": "in_progress", "input": ""}},
        ),
        ("custom_tool_call_input.delta", {**patched, "delta": "*** "}),
        ("custom_tool_call_input.delta", {**patched, "delta": "Begin"}),
        ("custom_tool_call_input.done", {**patched, "input": "*** Begin"}),
        ("output_item.done", {"output_index": 3, "item": CUSTOM}),
    ]
    response = completed[1]["response"]
    assert response["status"] == "completed"
    assert response["output"] == [REASONING, MESSAGE, CALL, CUSTOM]
    assert response["usage"] == USAGE


def test_without_a_stream_it_is_the_same_response_as_a_whole():
    response = document(ask_script(RESPONSES, TURN, stream=False))
    assert response["object"] == "response"
    assert response["output"] == [REASONING, MESSAGE, CALL, CUSTOM]
    assert response["usage"] == USAGE


def test_an_answer_that_is_too_long_is_incomplete():
    name, data = told(ask_script(RESPONSES, [{"text": "a"}, {"stop": "length"}]))[-1]
    assert name == "incomplete"
    assert data["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_an_error_in_mid_answer_fails_the_response():
    error = {"kind": "rate_limit", "retry_after": 2}
    name, data = told(ask_script(RESPONSES, [{"text": "a"}, {"error": error}]))[-1]
    assert name == "failed"
    assert data["response"]["status"] == "failed"
    assert data["response"]["error"] == {
        "code": "rate_limit_exceeded",
        "message": "Rate limit reached for requests. Please try again in 2s.",
    }


def test_a_full_context_is_told_inside_the_stream_and_refused_without_one():
    step = {"error": "context_full"}
    answer = ask_script(RESPONSES, [step])
    assert answer.status == 200
    *_, (name, data) = told(answer)
    assert name == "failed"
    assert data["response"]["error"]["code"] == "context_length_exceeded"
    assert ask_script(RESPONSES, [step], stream=False).status == 400


def test_a_refusal_has_the_form_of_the_real_one():
    answer = ask_script(RESPONSES, [{"error": "bad_key"}])
    assert answer.status == 401
    assert document(answer)["error"] == {
        "message": "Incorrect API key provided.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_api_key",
    }


def test_all_that_the_model_did_before_a_result_is_one_turn():
    body = body_of(
        RESPONSES, scripted([{"tool": {"name": "write"}}], {"text": "Two"}), stream=False
    )
    body["input"] += [
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
        {"type": "function_call", "call_id": "call_1", "name": "write", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": scripted({"text": "not"})},
    ]
    [item] = document(ask(RESPONSES, body))["output"]
    assert item["content"][0]["text"] == "Two"


def test_input_may_be_plain_text():
    [item] = document(ask(RESPONSES, {"model": "m", "input": "hi there"}))["output"]
    assert item["content"][0]["text"] == "echo: hi there"


def test_tools_that_are_offered_along_the_way_are_tools():
    body = body_of(RESPONSES, scripted([{"tool": {"name": "write"}}]), stream=False, tools=False)
    offered = {"type": "namespace", "name": "functions", "tools": [{"name": "write"}]}
    body["input"].insert(0, {"type": "additional_tools", "role": "developer", "tools": [offered]})
    (call,) = document(ask(RESPONSES, body))["output"]
    assert (call["type"], call["name"]) == ("function_call", "write")


def test_what_one_agent_tells_another_is_its_prompt():
    body = body_of(RESPONSES, "hello", stream=False)
    sealed = {"type": "encrypted_content", "encrypted_content": scripted([{"text": "I do."}])}
    content = [{"type": "input_text", "text": "Message Type: NEW_TASK"}, sealed]
    body["input"].append({"type": "agent_message", "author": "/root", "content": content})
    (message,) = document(ask(RESPONSES, body))["output"]
    assert message["content"][0]["text"] == "I do."
