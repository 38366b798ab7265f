"""Anthropic Messages: the events of a stream, the whole message, errors, what was said before."""

from __future__ import annotations

import pytest

from tests.model.asking import MESSAGES, ask, ask_script, body_of, document, events, scripted

NO_CACHE = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
TURN = [
    {"thinking": "Hm, well"},
    {"text": "Here it comes."},
    {"tool": {"name": "Write", "input": {"file_path": "a b", "n": 1}}},
    {"usage": {"input": 10, "output": 20, "cache_read": 3, "cache_write": 4, "thinking": 5}},
]


def usage(output: int) -> dict[str, object]:
    return {
        "input_tokens": 10,
        "cache_creation_input_tokens": 4,
        "cache_read_input_tokens": 3,
        "cache_creation": NO_CACHE | {"ephemeral_5m_input_tokens": 4},
        "output_tokens": output,
        "output_tokens_details": {"thinking_tokens": 5},
        "service_tier": "standard",
    }


def delta(index: int, **members: str) -> tuple[str, dict[str, object]]:
    data = {"type": "content_block_delta", "index": index, "delta": members}
    return "content_block_delta", data


def test_a_stream_is_what_the_real_one_is():
    answer = ask_script(MESSAGES, TURN)
    assert answer.status == 200
    assert dict(answer.headers)["content-type"] == "text/event-stream; charset=utf-8"
    message: dict[str, object] = {
        "model": "m",
        "id": "msg_#",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage(1),
    }
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    text = {"type": "text", "text": ""}
    tool = {"type": "tool_use", "id": "toolu_t0c0_#", "name": "Write", "input": {}}
    start, stop = "content_block_start", "content_block_stop"
    assert events(answer) == [
        ("message_start", {"type": "message_start", "message": message}),
        ("ping", {"type": "ping"}),
        (start, {"type": start, "index": 0, "content_block": thinking}),
        delta(0, type="thinking_delta", thinking="Hm, "),
        delta(0, type="thinking_delta", thinking="well"),
        delta(0, type="signature_delta", signature="#"),
        (stop, {"type": stop, "index": 0}),
        (start, {"type": start, "index": 1, "content_block": text}),
        delta(1, type="text_delta", text="Here "),
        delta(1, type="text_delta", text="it "),
        delta(1, type="text_delta", text="comes."),
        (stop, {"type": stop, "index": 1}),
        (start, {"type": start, "index": 2, "content_block": tool}),
        delta(2, type="input_json_delta", partial_json=""),
        delta(2, type="input_json_delta", partial_json='{"file_path":"a '),
        delta(2, type="input_json_delta", partial_json='b","n":1}'),
        (stop, {"type": stop, "index": 2}),
        (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use", "stop_sequence": None},
                "usage": usage(20),
            },
        ),
        ("message_stop", {"type": "message_stop"}),
    ]


def test_without_a_stream_it_is_the_same_message_as_a_whole():
    message = document(ask_script(MESSAGES, TURN, stream=False))
    assert message["content"] == [
        {"type": "thinking", "thinking": "Hm, well", "signature": "#"},
        {"type": "text", "text": "Here it comes."},
        {
            "type": "tool_use",
            "id": "toolu_t0c0_#",
            "name": "Write",
            "input": {"file_path": "a b", "n": 1},
        },
    ]
    assert message["stop_reason"] == "tool_use"
    assert message["usage"] == usage(20)


def test_a_refusal_has_the_form_and_the_headers_of_the_real_one():
    step = {"error": {"kind": "rate_limit", "retry_after": 1.5, "retry": False}}
    answer = ask_script(MESSAGES, [step])
    assert answer.status == 429
    assert ("retry-after", "1.5") in answer.headers
    assert ("x-should-retry", "false") in answer.headers
    assert document(answer) == {
        "type": "error",
        "error": {
            "type": "rate_limit_error",
            "message": "This request would exceed your organization's rate limit.",
        },
    }


@pytest.mark.parametrize(("kind", "retry"), [("bad_key", "false"), ("overloaded", "true")])
def test_a_refusal_tells_whether_to_try_again(kind, retry):
    assert ("x-should-retry", retry) in ask_script(MESSAGES, [{"error": kind}]).headers


def test_an_error_in_mid_answer_is_an_event():
    *_, last = events(ask_script(MESSAGES, [{"text": "a"}, {"error": "overloaded"}]))
    told = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert last == ("error", told)


def test_tokens_are_counted_in_words():
    body = body_of(MESSAGES, "one two three", stream=False)
    assert document(ask(f"{MESSAGES}/count_tokens", body)) == {"input_tokens": 3}


def test_results_of_tools_and_reminders_around_them_are_told_from_what_the_user_says():
    body = body_of(MESSAGES, scripted([{"tool": {"name": "Write"}}], {"text": "Two"}), stream=False)
    use = {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {}}
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [{"type": "text", "text": scripted({"text": "not me"})}],
    }
    reminder = {"type": "text", "text": "<system-reminder>Be nice.</system-reminder>"}
    body["messages"] += [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm"}, use]},
        {"role": "user", "content": [result, reminder]},
    ]
    assert document(ask(MESSAGES, body))["content"] == [{"type": "text", "text": "Two"}]


def test_a_body_that_is_no_request_is_refused_by_the_name_of_its_fault():
    answer = ask(MESSAGES, {"model": "m", "messages": [{"content": "x"}]})
    assert answer.status == 400
    told = document(answer)["error"]
    assert told == {
        "type": "invalid_request_error",
        "message": "body.messages[0].role: required, but missing",
    }
