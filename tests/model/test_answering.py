"""What holds for every API: paths, keys, lists of models, waits, faults, retries."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agor.testing.model.answering import Answer, Answering, Question
from agor.testing.model.playing import Fault, Wait
from tests.model.asking import (
    CHAT,
    GEMINI,
    GEMINI_STREAM,
    MESSAGES,
    NOW,
    RESPONSES,
    ask,
    ask_script,
    body_of,
    document,
    doings,
    events,
    question,
    scripted,
    sent,
)

STREAMS = [MESSAGES, RESPONSES, CHAT, GEMINI_STREAM]
every_api = pytest.mark.parametrize("target", STREAMS)


def get(path: str, answering: Answering | None = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answering = answering or Answering(models=["m1", "m2"])
    return answering.answer(Question("GET", path, named), number=1, now=NOW)


@every_api
@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("forbidden", 403),
        ("not_found", 404),
        ("bad_request", 400),
        ("rate_limit", 429),
        ("server_error", 500),
    ],
)
def test_every_error_is_refused_with_its_status(target, kind, status):
    for stream in (True, False):
        answer = ask_script(target, [{"error": kind}], stream=stream)
        assert answer.status == status
        assert answer.length == len(sent(answer))


@pytest.mark.parametrize(
    ("target", "status"), [(MESSAGES, 529), (RESPONSES, 503), (CHAT, 503), (GEMINI_STREAM, 503)]
)
def test_overload_has_the_status_of_its_provider(target, status):
    assert ask_script(target, [{"error": "overloaded"}]).status == status


@every_api
def test_message_and_status_of_an_error_can_be_chosen(target):
    error = {"kind": "server_error", "message": "It burns.", "status": 502}
    answer = ask_script(target, [{"error": error}])
    assert answer.status == 502
    assert document(answer)["error"]["message"] == "It burns."


@every_api
def test_an_error_later_in_a_whole_answer_refuses_it(target):
    answer = ask_script(target, [{"text": "a"}, {"error": "server_error"}], stream=False)
    assert answer.status == 500


@every_api
def test_a_cut_leaves_an_event_half_sent(target):
    answer = ask_script(target, [{"text": "a"}, {"cut": True}])
    pieces = list(answer.pieces)
    assert pieces[-1] is Fault.CUT
    last = pieces[-2]
    assert isinstance(last, bytes)
    assert b"data: " in last
    assert not last.endswith(b"\n")


@every_api
def test_a_cut_leaves_a_document_half_sent(target):
    answer = ask_script(target, [{"text": "a"}, {"cut": True}], stream=False)
    *_, half, cut = answer.pieces
    assert cut is Fault.CUT
    assert isinstance(half, bytes)
    assert answer.length is not None
    assert 0 < len(half) < answer.length


@every_api
def test_a_stall_is_the_last_that_is_heard(target):
    streamed = list(ask_script(target, [{"text": "a"}, {"stall": True}, {"text": "b"}]).pieces)
    assert streamed[-1] is Fault.STALL
    whole = list(ask_script(target, [{"text": "a"}, {"stall": True}], stream=False).pieces)
    assert whole == [Fault.STALL]


@every_api
def test_delays_and_a_pace_are_kept_in_streams_in_documents_and_before_errors(target):
    steps: list[Any] = [{"delay_ms": 500}, {"pace_ms": 20}, {"text": "a"}]
    for stream in (True, False):
        waits = doings(ask_script(target, steps, stream=stream))
        assert waits[0] == Wait(0.5)
        assert set(waits[1:]) == {Wait(0.02)}
    refused = ask_script(target, [{"delay_ms": 500}, {"error": "server_error"}])
    assert refused.status == 500
    assert doings(refused) == [Wait(0.5)]


@every_api
def test_a_fault_with_times_is_over_after_so_many_of_the_same_question(target):
    answering = Answering()
    script = scripted([{"error": "server_error", "times": 2}, {"text": "well"}])
    body = body_of(target, script, stream=True)
    other = body_of(target, script + " and more", stream=True)
    assert [ask(target, body, answering).status for _ in range(3)] == [500, 500, 200]
    assert ask(target, other, answering).status == 500


@every_api
def test_a_bad_script_is_a_bad_request_that_names_the_step(target):
    answer = ask(target, body_of(target, scripted({"txt": "a"}), stream=True))
    assert answer.status == 400
    assert "model_script" in document(answer)["error"]["message"]


@every_api
@pytest.mark.parametrize(
    "headers",
    [
        {"x-api-key": "right"},
        {"authorization": "Bearer right"},
        {"x-goog-api-key": "right"},
    ],
)
def test_with_keys_only_they_open(target, headers):
    answering = Answering(keys=["right", "also-right"])
    body = body_of(target, "hi", stream=True)
    right = question(target, body, headers)
    wrong = question(target, body, {name: value + "!" for name, value in headers.items()})
    assert answering.answer(right, number=1, now=NOW).status == 200
    refused = answering.answer(wrong, number=1, now=NOW)
    assert refused.status == (400 if target == GEMINI_STREAM else 401)
    assert answering.answer(question(target, body), number=1, now=NOW).status == refused.status


def test_a_key_may_be_in_the_query():
    answering = Answering(keys=["right"])
    body = body_of(GEMINI, "hi", stream=False)
    assert ask(f"{GEMINI}?key=right", body, answering).status == 200
    assert ask(f"{GEMINI}?key=wrong", body, answering).status == 400


def test_each_provider_has_its_list_of_models():
    assert [model["id"] for model in document(get("/v1/models"))["data"]] == ["m1", "m2"]
    anthropic = document(get("/v1/models?limit=10", anthropic_version="2023-06-01"))
    assert (anthropic["first_id"], anthropic["last_id"]) == ("m1", "m2")
    gemini = document(get("/v1beta/models"))
    assert [model["name"] for model in gemini["models"]] == ["models/m1", "models/m2"]
    assert document(get("/v1/models/any"))["id"] == "any"
    assert document(get("/v1beta/models/any"))["name"] == "models/any"


@pytest.mark.parametrize(
    "path", ["/v1/v1/messages", "/messages", "/responses", "/v1beta/nothing", "/v1/embeddings"]
)
def test_there_is_nothing_at_other_paths(path):
    answer = ask(path, {})
    assert answer.status == 404
    assert path in document(answer)["error"]["message"]
    assert get(path).status == 404


def test_the_root_tells_that_somebody_is_there():
    assert get("/").status == 200


def test_gemini_is_also_found_below_a_project():
    target = f"/v1/projects/p/locations/l/publishers/google{GEMINI.removeprefix('/v1beta')}"
    assert ask(target, body_of(GEMINI, "hi", stream=False)).status == 200


def test_no_two_answers_share_an_id():
    body = body_of(MESSAGES, scripted([{"tool": {"name": "Write"}}]), stream=False)
    answering = Answering()
    answers = [
        sent(answering.answer(question(MESSAGES, body), number=n, now=NOW)) for n in range(2)
    ]
    assert answers[0] != answers[1]
    assert sent(Answering().answer(question(MESSAGES, body), number=1, now=NOW)) != answers[1]


def test_a_word_is_a_token_where_the_script_tells_no_usage():
    script = scripted([{"thinking": "one two"}, {"text": "three"}])
    body = body_of(MESSAGES, script, stream=True)
    _, data = events(ask(MESSAGES, body))[-2]
    assert data["usage"]["input_tokens"] == len(script.split())
    assert data["usage"]["output_tokens"] == 3


@pytest.mark.parametrize("target", [*STREAMS, GEMINI])
@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{", b"\xff", b'{"messages": 1}'])
def test_whatever_comes_as_a_body_is_answered(target, body):
    answer = Answering().answer(Question("POST", target, {}, body), number=1, now=NOW)
    assert answer.status in (200, 400)
    assert sent(answer)


members = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "id",
        "name",
        "parts",
        "functionCall",
        "functionResponse",
        "thought",
        "output",
        "call_id",
        "tool_calls",
        "function",
        "functionDeclarations",
        "include_usage",
        "generateContentRequest",
    ]
)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.just('{"model_script": [1'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(members, inner, max_size=4),
    max_leaves=12,
)
bodies = st.fixed_dictionaries(
    {"model": st.just("m")},
    optional=dict.fromkeys(
        [
            "messages",
            "input",
            "contents",
            "tools",
            "system",
            "systemInstruction",
            "instructions",
            "stream",
        ],
        anything,
    ),
)


@every_api
@given(bodies)
def test_whatever_form_a_body_has_it_is_answered(target, body):
    answer = ask(target, body)
    assert answer.status in (200, 400)
    assert sent(answer)


@every_api
def test_text_that_no_encoding_has_is_refused(target):
    broken = '{"model_script": [{"text": "\\ud800"}]}'
    assert ask(target, body_of(target, broken, stream=True)).status == 400


def test_a_body_that_is_encoded_is_refused_by_the_name_of_its_fault():
    encoded = Question("POST", CHAT, {"content-encoding": "zstd"}, b"...")
    answer = Answering().answer(encoded, number=1, now=NOW)
    assert "content-encoding" in document(answer)["error"]["message"]
