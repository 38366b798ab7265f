"""Batches: one answer for all of them, whole and once, whatever is inside."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agor.protocol.validation import Method
from agor.rpc import Limits
from tests.contract.raw_end import RawEnd, notice, request
from tests.contract.service import ECHO, Nothing, Service, Text
from tests.contract.waiting import soon, until

CAP = 4096


@pytest.fixture
def limits() -> Limits:
    return Limits(max_line=CAP, max_batch=20, max_in_flight=4)


def codes(answers: list[dict[str, Any]]) -> list[tuple[object, int]]:
    return [(answer["id"], answer["error"]["code"]) for answer in answers]


async def test_a_batch_is_answered_by_one_list_with_every_id_once(raw_ends):
    _, raw = raw_ends
    answers = await raw.ask([request(number, "subtract", number, 1) for number in range(20)])
    assert [(answer["id"], answer["result"]) for answer in answers] == [
        (number, number - 1) for number in range(20)
    ]


async def test_a_batch_of_junk_gets_an_error_for_each_piece(raw: RawEnd):
    junk = [1, "two", None, [], {}, [[]], {"jsonrpc": "2.0"}, {"id": 7, "method": "subtract"}]
    answers = await raw.ask(junk)
    assert codes(answers) == [(None, -32600)] * 7 + [(7, -32600)]


async def test_a_mixed_batch_answers_requests_and_junk_and_leaves_notifications_unanswered(
    raw: RawEnd, service: Service
):
    answers = await raw.ask(
        [
            notice("note", text="one"),
            request("a", "subtract", 3, 1),
            5,
            request("b", "no_such_method"),
            request("c", "subtract", minuend="three"),
            notice("no_such_notice"),
            notice("note", text="two"),
        ]
    )
    assert answers[0] == {"jsonrpc": "2.0", "id": "a", "result": 2}
    assert codes(answers[1:]) == [(None, -32600), ("b", -32601), ("c", -32602)]
    assert service.notes == ["one", "two"]


async def test_a_batch_of_notifications_alone_is_not_answered(raw: RawEnd, service: Service):
    raw.say([notice("note", text=str(number)) for number in range(20)])
    assert (await raw.ask(request(1, "subtract", 1, 1)))["id"] == 1
    assert len(service.notes) == 20


@pytest.mark.parametrize("size", [0, 21, 200])
async def test_a_batch_that_is_empty_or_too_large_is_refused_as_a_whole(
    raw: RawEnd, service: Service, size: int
):
    answer = await raw.ask([notice("note", text="no")] * size if size <= 21 else [1] * size)
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert service.notes == []


async def test_a_batch_waits_for_its_slowest_and_others_do_not_wait_for_it(
    raw_ends, service: Service
):
    _, raw = raw_ends
    raw.say(
        [
            request(1, "wait", name="slow"),
            request(2, "subtract", 2, 1),
            request(3, "wait", name="slower"),
            notice("wait", name="unanswered"),
        ]
    )
    await soon(service.started["unanswered"].wait())
    assert (await raw.ask(request(4, "subtract", 9, 1)))["result"] == 8
    service.open_gate("slower").set_result("slower")
    service.open_gate("slow").set_result("slow")
    assert (await raw.ask(request(5, "subtract", 9, 2)))["result"] == 7
    service.open_gate("unanswered").set_result("")
    answers = {answer["id"]: answer["result"] for answer in await raw.hear()}
    assert answers == {1: "slow", 2: 1, 3: "slower"}


async def test_a_request_inside_a_batch_can_be_cancelled(raw: RawEnd, service: Service):
    raw.say([request(1, "wait", name="a"), request(2, "wait", name="b")])
    for name in "ab":
        await soon(service.started[name].wait())
    raw.say(notice("$/cancelRequest", id=1))
    await soon(service.cancelled["a"].wait())
    service.open_gate("b").set_result("b")
    by_id = {answer["id"]: answer for answer in await raw.hear()}
    assert by_id[1]["error"]["code"] == -32006
    assert by_id[2]["result"] == "b"


async def test_a_batch_past_the_bound_in_flight_is_answered_in_full(raw: RawEnd, service: Service):
    raw.say([request(number, "wait", name=str(number)) for number in range(6)])
    for number in range(4):
        await soon(service.started[str(number)].wait())
        service.open_gate(str(number)).set_result("done")
    by_id = {answer["id"]: answer for answer in await raw.hear()}
    assert sorted(by_id) == list(range(6))
    assert [by_id[number]["result"] for number in range(4)] == ["done"] * 4
    assert [by_id[number]["error"]["code"] for number in (4, 5)] == [-32001] * 2


async def test_a_batch_whose_answers_exceed_the_cap_together_still_answers_every_request(
    raw: RawEnd,
):
    raw.say([request(number, "give", 120, CAP // 2) for number in range(3)])
    answers = await raw.hear()
    assert isinstance(answers, list), f"three requests were answered by {answers}"
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2]


async def test_one_unsayable_result_spoils_only_its_own_place_in_a_batch(
    raw: RawEnd, service: Service
):
    service.routes.on(Method("unsayable", Nothing, object), lambda _: object())
    good, bad = await raw.ask([request(1, "subtract", 2, 1), request(2, "unsayable")])
    assert good == {"jsonrpc": "2.0", "id": 1, "result": 1}
    assert codes([bad]) == [(2, -32603)]


async def test_an_id_of_a_batch_stays_taken_until_the_batch_is_answered(
    raw: RawEnd, service: Service
):
    raw.say([request("x", "subtract", 2, 1), request("y", "wait", name="slow")])
    await soon(service.started["slow"].wait())
    raw.say(request("x", "subtract", 200, 100))
    service.open_gate("slow").set_result("done")
    first = await raw.hear()
    if not isinstance(first, list):
        # Under its id, it would be taken for the answer that the batch still owes.
        assert codes([first]) == [(None, -32600)]
        first = await raw.hear()
    assert {answer["id"]: answer["result"] for answer in first} == {"x": 1, "y": "done"}


async def test_a_batch_of_answers_settles_our_own_calls(raw_ends):
    peer, raw = raw_ends
    calls = [asyncio.create_task(peer.call(ECHO, Text(text))) for text in "abc"]
    asked = [await raw.hear() for _ in calls]
    raw.say([{"jsonrpc": "2.0", "id": one["id"], "result": one["params"]} for one in asked[::-1]])
    assert [answer.text for answer in await soon(asyncio.gather(*calls))] == ["a", "b", "c"]
    assert (await raw.ask(request(1, "subtract", 1, 1)))["result"] == 0


async def test_a_batch_whose_sender_is_gone_cancels_its_handlers(raw_ends, service: Service):
    peer, raw = raw_ends
    raw.say([request(1, "wait", name="a"), request(2, "wait", name="b")])
    for name in "ab":
        await soon(service.started[name].wait())
    raw.abort()
    await soon(peer.wait_closed())
    await until(lambda: all(service.cancelled[name].is_set() for name in "ab"))
