"""Gemini: candidates with parts, as events, as an array, as a whole; errors in Google's form."""

from __future__ import annotations

import json
from typing import Any

from tests.model.asking import (
    GEMINI,
    GEMINI_STREAM,
    ask,
    ask_script,
    body_of,
    document,
    events,
    scripted,
    sent,
)

TURN = [
    {"thinking": "**Hm**\nwell"},
    {"text": "Here it"},
    {"tool": {"name": "write_file", "input": {"n": 1}}},
    {"tool": {"name": "read_file", "input": {}}},
    {"usage": {"input": 10, "output": 20, "cache_read": 3, "thinking": 5}},
]
USAGE = {
    "promptTokenCount": 13,
    "candidatesTokenCount": 15,
    "totalTokenCount": 33,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 13}],
    "cachedContentTokenCount": 3,
    "thoughtsTokenCount": 5,
}
THOUGHT = {"text": "**Hm**\nwell", "thought": True}
CALL = {
    "functionCall": {"name": "write_file", "args": {"n": 1}, "id": "call_t0c0_#"},
    "thoughtSignature": "#",
}
SECOND_CALL = {"functionCall": {"name": "read_file", "args": {}, "id": "call_t0c1_#"}}


def chunk(part: dict[str, Any], **more: str) -> dict[str, Any]:
    candidate = {"content": {"parts": [part], "role": "model"}, **more, "index": 0}
    return {
        "candidates": [candidate],
        "usageMetadata": USAGE,
        "modelVersion": "m",
        "responseId": "#",
    }


CHUNKS = [
    chunk(THOUGHT),
    chunk({"text": "Here "}),
    chunk({"text": "it"}),
    chunk(CALL),
    chunk(SECOND_CALL),
    chunk({"text": ""}, finishReason="STOP"),
]


def test_a_stream_of_events_is_what_the_real_one_is():
    answer = ask_script(GEMINI_STREAM, TURN)
    assert events(answer) == [(None, data) for data in CHUNKS]


def test_without_alt_sse_a_stream_is_one_array():
    target = GEMINI_STREAM.removesuffix("?alt=sse")
    answer = ask(target, body_of(target, scripted(TURN), stream=True))
    assert dict(answer.headers)["content-type"].startswith("application/json")
    assert document(answer) == CHUNKS


def test_an_array_is_closed_behind_an_error_too():
    target = GEMINI_STREAM.removesuffix("?alt=sse")
    script = scripted([{"text": "a"}, {"error": "overloaded"}])
    first, error = json.loads(sent(ask(target, body_of(target, script, stream=True))))
    assert first["candidates"][0]["content"]["parts"] == [{"text": "a"}]
    assert error["error"]["code"] == 503


def test_without_a_stream_it_is_the_same_answer_as_a_whole():
    answer = document(ask_script(GEMINI_STREAM, TURN, stream=False))
    [candidate] = answer["candidates"]
    assert candidate["content"]["parts"] == [THOUGHT, {"text": "Here it"}, CALL, SECOND_CALL]
    assert candidate["finishReason"] == "STOP"
    assert answer["usageMetadata"] == USAGE


def test_a_bad_key_is_refused_as_google_does():
    answer = ask_script(GEMINI_STREAM, [{"error": "bad_key"}])
    assert answer.status == 400
    told = document(answer)["error"]
    assert told["status"] == "INVALID_ARGUMENT"
    assert told["details"][0]["reason"] == "API_KEY_INVALID"


def test_a_time_to_wait_is_in_the_header_and_in_the_body():
    error = {"kind": "rate_limit", "retry_after": 2}
    answer = ask_script(GEMINI_STREAM, [{"error": error}])
    assert answer.status == 429
    assert ("retry-after", "2") in answer.headers
    told = document(answer)["error"]
    assert told["code"] == 429
    assert told["details"] == [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"}
    ]


def test_tokens_are_counted_in_words_also_inside_a_request():
    target = GEMINI.replace("generateContent", "countTokens")
    body = body_of(GEMINI, "one two three", stream=False)
    assert document(ask(target, body))["totalTokens"] == 3
    assert document(ask(target, {"generateContentRequest": body}))["totalTokens"] == 3


def test_the_result_of_a_function_ends_a_turn():
    script = scripted([{"tool": {"name": "write_file"}}], {"text": "Two"})
    body = body_of(GEMINI, script, stream=False)
    result = {"name": "write_file", "response": {"output": scripted({"text": "not me"})}}
    body["contents"] += [
        {"role": "model", "parts": [{"text": "Hm", "thought": True}, CALL]},
        {"role": "user", "parts": [{"functionResponse": result}]},
    ]
    [candidate] = document(ask(GEMINI, body))["candidates"]
    assert candidate["content"]["parts"] == [{"text": "Two"}]
