"""Two peers talk, over every way in: questions both ways, answers in any order, notifications."""

from __future__ import annotations

import asyncio
import json

import pytest

from agor.errors import (
    BadInput,
    HandlerFailed,
    InternalError,
    InvalidParams,
    InvalidResult,
    MethodNotFound,
    RpcError,
)
from agor.protocol.validation import Method, Notice
from tests.contract.raw_end import notice, request
from tests.contract.service import (
    ECHO,
    MISSING,
    NOTE,
    RAISE,
    SUBTRACT,
    WAIT,
    Name,
    Nothing,
    Operands,
    Refusal,
    Service,
    Text,
)
from tests.contract.waiting import soon, until


async def test_both_ends_ask_and_are_answered(peers):
    there, here = peers
    assert await soon(here.call(SUBTRACT, Operands(42, 23))) == 19
    assert await soon(there.call(SUBTRACT, Operands(23, 42))) == -19


async def test_many_requests_both_ways_at_once_get_their_own_answers(peers):
    there, here = peers
    calls = [
        (peer.call(ECHO, Text(f"{side} {number}")), f"{side} {number}")
        for number in range(100)
        for side, peer in (("there", there), ("here", here))
    ]
    answers = await soon(asyncio.gather(*(call for call, _ in calls)))
    assert [answer.text for answer in answers] == [said for _, said in calls]


async def test_answers_come_back_in_any_order(peers, service: Service):
    _, here = peers
    names = ["first", "second", "third"]
    calls = {name: asyncio.create_task(here.call(WAIT, Name(name))) for name in names}
    for name in names:
        await soon(service.started[name].wait())
    for name in reversed(names):
        service.open_gate(name).set_result(f"answer to {name}")
        assert await soon(calls[name]) == f"answer to {name}"
        del calls[name]
        assert not any(call.done() for call in calls.values())


async def test_a_handler_may_ask_back_before_it_answers(peers, service: Service):
    there, here = peers
    ask_back: Method[Nothing, str] = Method("ask_back", Nothing, str)

    async def handle(_: Nothing) -> str:
        answer: Text = await there.call(ECHO, Text("what was it?"))
        return answer.text

    service.routes.on(ask_back, handle)
    assert await soon(here.call(ask_back, Nothing())) == "what was it?"


async def test_a_stream_keeps_its_order_among_all_else_and_a_bug_in_taking_it_ends_nothing(
    raw_ends, service: Service
):
    _, raw = raw_ends
    numbers = [notice("passed_on", n=number) for number in range(500)]
    raw.say(*numbers[:300], request(1, "subtract", 2, 1), *numbers[300:])
    assert (await raw.hear())["result"] == 1
    raw.say({"jsonrpc": "2.0", "method": "passed_on", "params": {"break": True}})
    raw.say(request(2, "subtract", 3, 1))
    assert (await raw.hear())["result"] == 2
    assert [json.loads(params)["n"] for params in service.passed_on] == list(range(500))
    assert max(service.runs) > 1, "what came together is handed over together"


async def test_notifications_arrive_once_each_and_in_order(peers, service: Service):
    _, here = peers
    said = [f"note {number}" for number in range(1000)]
    for text in said:
        here.notify(NOTE, Text(text))
        await here.drain()
    await until(lambda: len(service.notes) >= len(said))
    assert service.notes == said


async def test_a_request_after_notifications_is_carried_out_after_them(peers, service: Service):
    _, here = peers
    for text in "abc":
        here.notify(NOTE, Text(text))
    assert await soon(here.call(SUBTRACT, Operands(1, 1))) == 0
    assert service.notes == ["a", "b", "c"]


async def test_a_handlers_notifications_reach_the_caller_before_its_answer(
    peers, service: Service, own_service: Service
):
    there, here = peers
    tell: Method[Nothing, int] = Method("tell", Nothing, int)

    async def handle(_: Nothing) -> int:
        for text in "abc":
            there.notify(NOTE, Text(text))
        return 3

    service.routes.on(tell, handle)
    assert await soon(here.call(tell, Nothing())) == 3
    assert own_service.notes == ["a", "b", "c"]


async def test_a_notification_with_a_fault_is_never_answered(raw_ends, service: Service):
    _, raw = raw_ends
    raw.say(notice("note", 5), notice("no_such_notice"), notice("note", text="good"))
    assert await raw.ask(request(1, "subtract", 2, 1)) == {"jsonrpc": "2.0", "id": 1, "result": 1}
    assert service.notes == ["good"]


@pytest.mark.parametrize(
    "request_id", [0, 1, -1, 2**53, 2**63 - 1, -(2**63), "", "1", "ü", "x" * 256]
)
async def test_an_id_comes_back_as_it_was_given(raw_ends, request_id: object):
    _, raw = raw_ends
    answer = await raw.ask(request(request_id, "subtract", 3, 1))
    assert answer == {"jsonrpc": "2.0", "id": request_id, "result": 2}
    assert type(answer["id"]) is type(request_id)


async def test_integer_and_string_ids_that_look_alike_are_two_requests(raw_ends, service: Service):
    _, raw = raw_ends
    raw.say(request(1, "wait", name="integer"), request("1", "wait", name="string"))
    for name in ("integer", "string"):
        await soon(service.started[name].wait())
    service.open_gate("string").set_result("s")
    assert await raw.hear() == {"jsonrpc": "2.0", "id": "1", "result": "s"}
    service.open_gate("integer").set_result("i")
    assert await raw.hear() == {"jsonrpc": "2.0", "id": 1, "result": "i"}


async def test_a_method_that_is_not_served_raises_method_not_found(peers):
    _, here = peers
    with pytest.raises(MethodNotFound, match="there_is_no_such_method") as caught:
        await soon(here.call(MISSING, Nothing()))
    assert caught.value.rpc_code == -32601


async def test_wrong_params_raise_invalid_params_that_name_the_field(peers):
    _, here = peers
    wrong: Method[Text, int] = Method("subtract", Text, int)
    with pytest.raises(InvalidParams, match=r"params\.minuend: required, but missing"):
        await soon(here.call(wrong, Text("forty-two")))


async def test_an_answer_of_the_wrong_form_raises_invalid_result(peers):
    _, here = peers
    wrong: Method[Operands, Text] = Method("subtract", Operands, Text)
    with pytest.raises(InvalidResult, match="subtract result"):
        await soon(here.call(wrong, Operands(2, 1)))


async def test_an_error_of_agors_own_keeps_its_word_and_its_hint(peers, service: Service):
    _, here = peers
    service.errors["no"] = Refusal("not today", hint="Come back tomorrow.")
    with pytest.raises(HandlerFailed, match="not today") as caught:
        await soon(here.call(RAISE, Name("no")))
    error = caught.value
    assert (error.rpc_code, error.code, error.hint) == (-32000, "refusal", "Come back tomorrow.")


async def test_a_number_of_somebody_elses_survives_the_way(peers, service: Service):
    _, here = peers
    service.errors["odd"] = RpcError("odd", code="odd_one", rpc_code=-31999)
    with pytest.raises(RpcError) as caught:
        await soon(here.call(RAISE, Name("odd")))
    assert (caught.value.rpc_code, caught.value.code) == (-31999, "odd_one")


async def test_a_bug_in_a_handler_is_an_internal_error_and_keeps_its_message_to_itself(
    peers, service: Service
):
    _, here = peers
    service.errors["bug"] = ValueError("the key is sk-secret")
    with pytest.raises(InternalError) as caught:
        await soon(here.call(RAISE, Name("bug")))
    assert "sk-secret" not in f"{caught.value} {caught.value.hint}"
    assert await soon(here.call(SUBTRACT, Operands(2, 1))) == 1


async def test_a_result_that_is_no_json_fails_its_own_request_only(peers, service: Service):
    _, here = peers
    unsayable: Method[Nothing, object] = Method("unsayable", Nothing, object)
    service.routes.on(unsayable, lambda _: object())
    calls = [here.call(unsayable, Nothing()), here.call(SUBTRACT, Operands(2, 1))]
    failed, answered = await soon(asyncio.gather(*calls, return_exceptions=True))
    assert isinstance(failed, InternalError)
    assert answered == 1


async def test_params_that_cannot_be_sent_fail_at_the_caller_and_leave_nothing_open(peers):
    _, here = peers
    unsayable: Method[object, int] = Method("subtract", object, int)
    with pytest.raises(TypeError):
        await soon(here.call(unsayable, object()))
    with pytest.raises(TypeError):
        here.notify(Notice("note", object), object())
    assert await soon(here.call(SUBTRACT, Operands(2, 1))) == 1
    assert len(here._pending) == 0


async def test_a_message_over_the_cap_is_refused_before_it_is_sent(peers):
    _, here = peers
    with pytest.raises(BadInput, match="over the cap"):
        await soon(here.call(ECHO, Text("x" * 17 * 1024 * 1024)))
    assert (await soon(here.call(ECHO, Text("short")))).text == "short"
