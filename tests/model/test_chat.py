"""OpenAI chat completions: chunks with deltas, the usage at the end, errors."""

from __future__ import annotations

from typing import Any

from tests.model.asking import CHAT, ask, ask_script, body_of, document, events, scripted

TURN = [
    {"thinking": "Hm"},
    {"text": "Here it"},
    {"tool": {"name": "write", "input": {"n": 1}}},
    {"tool": {"name": "bash", "input": {"command": "ls -l"}}},
    {"usage": {"input": 10, "output": 20, "cache_read": 3, "thinking": 5}},
]
USAGE = {
    "prompt_tokens": 13,
    "completion_tokens": 20,
    "total_tokens": 33,
    "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 5,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}


def deltas(found: list[tuple[str | None, Any]]) -> list[Any]:
    return [data["choices"][0]["delta"] for _, data in found]


def test_a_stream_is_what_the_real_one_is():
    *chunks, finish, usage, done = events(ask_script(CHAT, TURN))

    def call(index: int, **members: Any) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, **members}]}

    def arguments(index: int, piece: str) -> dict[str, Any]:
        return call(index, function={"arguments": piece})

    def opening(name: str) -> dict[str, Any]:
        return {"type": "function", "function": {"name": name, "arguments": ""}}

    assert deltas(chunks) == [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning_content": "Hm"},
        {"content": "Here "},
        {"content": "it"},
        call(0, id="call_t0c0_#", **opening("write")),
        arguments(0, '{"n":1}'),
        call(1, id="call_t0c1_#", **opening("bash")),
        arguments(1, '{"command":"ls '),
        arguments(1, '-l"}'),
    ]
    common = {
        "id": "chatcmpl-#",
        "object": "chat.completion.chunk",
        "created": 1_800_000_000,
        "model": "m",
        "service_tier": "default",
        "system_fingerprint": None,
    }
    choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "tool_calls"}
    assert finish == (None, {**common, "choices": [choice], "usage": None})
    assert usage == (None, {**common, "choices": [], "usage": USAGE})
    assert done == (None, "[DONE]")


def test_the_usage_comes_only_for_those_who_ask_for_it():
    body = body_of(CHAT, "hi", stream=True)
    del body["stream_options"]
    *chunks, done = events(ask(CHAT, body))
    assert done == (None, "[DONE]")
    assert all("usage" not in data for _, data in chunks)
    assert chunks[-1][1]["choices"][0]["finish_reason"] == "stop"


def test_without_a_stream_it_is_the_same_completion_as_a_whole():
    completion = document(ask_script(CHAT, TURN, stream=False))
    assert completion["object"] == "chat.completion"
    assert completion["usage"] == USAGE
    [choice] = completion["choices"]
    assert choice["finish_reason"] == "tool_calls"
    calls = choice["message"].pop("tool_calls")
    assert choice["message"] == {
        "role": "assistant",
        "content": "Here it",
        "refusal": None,
        "reasoning_content": "Hm",
    }
    assert [each["function"] for each in calls] == [
        {"name": "write", "arguments": '{"n":1}'},
        {"name": "bash", "arguments": '{"command":"ls -l"}'},
    ]


def test_an_error_in_mid_answer_ends_the_stream():
    *_, (_, last) = events(ask_script(CHAT, [{"text": "a"}, {"error": "server_error"}]))
    assert last["error"]["type"] == "server_error"


def test_a_tool_whose_input_is_text_is_not_for_this_api():
    answer = ask_script(CHAT, [{"tool": {"name": "apply_patch", "input": "*** Begin"}}])
    assert answer.status == 400
    assert "apply_patch" in document(answer)["error"]["message"]


def test_the_results_of_several_calls_belong_to_one_turn():
    body = body_of(CHAT, scripted([{"tool": {"name": "write"}}], {"text": "Two"}), stream=False)
    calls = [{"id": f"call_{n}", "function": {"name": "write"}} for n in range(2)]
    body["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_0", "content": "done"},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "done"}]},
    ]
    assert document(ask(CHAT, body))["choices"][0]["message"]["content"] == "Two"
