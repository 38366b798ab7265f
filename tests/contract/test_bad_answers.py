"""Answers to our own calls that are not what they should be: the caller fails and does not hang."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from agor.errors import InvalidResult, RpcError
from agor.rpc import Peer
from tests.contract.raw_end import RawEnd, request
from tests.contract.service import ECHO, SUBTRACT, Operands, Service, Text
from tests.contract.waiting import soon
from tests.contract.ways import UnixPath

#: What comes back for request N, as bytes with N for the id.
SPOILED = {
    "no jsonrpc member": b'{"id":N,"result":{"text":"x"}}',
    "another version": b'{"jsonrpc":"1.0","id":N,"result":{"text":"x"}}',
    "a version of another type": b'{"jsonrpc":2,"id":N,"result":{"text":"x"}}',
    "neither result nor error": b'{"jsonrpc":"2.0","id":N}',
    "result and error": b'{"jsonrpc":"2.0","id":N,"result":1,"error":{"code":1,"message":"x"}}',
    "an error that is a text": b'{"jsonrpc":"2.0","id":N,"error":"boom"}',
    "an error that is null": b'{"jsonrpc":"2.0","id":N,"error":null}',
    "an error without a code": b'{"jsonrpc":"2.0","id":N,"error":{"message":"x"}}',
    "an error without a message": b'{"jsonrpc":"2.0","id":N,"error":{"code":-32000}}',
    "an error with a code that is no integer": (
        b'{"jsonrpc":"2.0","id":N,"error":{"code":"x","message":"x"}}'
    ),
    "an error with a huge code": (
        b'{"jsonrpc":"2.0","id":N,"error":{"code":%s,"message":"x"}}' % (b"9" * 400)
    ),
    "an error with endless data": (
        b'{"jsonrpc":"2.0","id":N,"error":{"code":1,"message":"x","data":%s}}'
        % (b"[" * 900 + b"]" * 900)
    ),
    "a result of the wrong form": b'{"jsonrpc":"2.0","id":N,"result":5}',
    "a result that is null": b'{"jsonrpc":"2.0","id":N,"result":null}',
    "a result nested without end": (
        b'{"jsonrpc":"2.0","id":N,"result":%s}' % (b"[" * 900 + b"]" * 900)
    ),
    "a method that is null": b'{"jsonrpc":"2.0","id":N,"method":null,"result":{"text":"x"}}',
    "half of a surrogate pair": b'{"jsonrpc":"2.0","id":N,"result":{"text":"\\ud83d"}}',
    "a result that is not UTF-8": b'{"jsonrpc":"2.0","id":N,"result":{"text":"\xff"}}',
}


@pytest.fixture
async def ends(service: Service) -> AsyncIterator[tuple[Peer, RawEnd]]:
    async with UnixPath().raw(service.routes) as both:
        yield both


@pytest.mark.parametrize("answer", SPOILED.values(), ids=SPOILED.keys())
async def test_a_spoiled_answer_fails_its_caller_at_once(ends, answer: bytes):
    peer, raw = ends
    call = asyncio.create_task(peer.call(ECHO, Text("hello"), timeout=None))
    asked = await raw.hear()
    raw.write(answer.replace(b"N", str(asked["id"]).encode()) + b"\n")
    with pytest.raises(RpcError):
        await soon(call)
    assert len(peer._pending) == 0


@pytest.mark.parametrize("spoiled", ["no jsonrpc member", "neither result nor error"])
async def test_a_spoiled_answer_in_a_batch_fails_its_caller_and_not_its_neighbour(
    ends, spoiled: str
):
    peer, raw = ends
    answer = SPOILED[spoiled]
    calls = [asyncio.create_task(peer.call(ECHO, Text(t), timeout=None)) for t in ("bad", "good")]
    bad, good = await raw.hear(), await raw.hear()
    whole = json.dumps({"jsonrpc": "2.0", "id": good["id"], "result": good["params"]}).encode()
    raw.write(b"[" + answer.replace(b"N", str(bad["id"]).encode()) + b"," + whole + b"]\n")
    failed, answered = await soon(asyncio.gather(*calls, return_exceptions=True))
    assert isinstance(failed, RpcError)
    assert answered == Text("good")


async def test_a_spoiled_answer_is_not_taken_for_the_answer_to_the_other_ends_own_request(
    ends, service: Service
):
    peer, raw = ends
    call = asyncio.create_task(peer.call(ECHO, Text("hello"), timeout=None))
    asked = await raw.hear()
    raw.say(request(asked["id"], "wait", name="theirs"))
    await soon(service.started["theirs"].wait())
    raw.say({"jsonrpc": "2.0", "id": asked["id"]})
    service.open_gate("theirs").set_result("their answer")
    answers = [await raw.hear()]
    if answers[0]["id"] is None:
        answers.append(await raw.hear())
    assert answers[-1] == {"jsonrpc": "2.0", "id": asked["id"], "result": "their answer"}
    with pytest.raises(RpcError):
        await soon(call)


async def test_the_other_ends_requests_may_have_the_same_ids_as_ours(raw_ends, service: Service):
    peer, raw = raw_ends
    call = asyncio.create_task(peer.call(ECHO, Text("ours")))
    asked = await raw.hear()
    raw.say(request(asked["id"], "wait", name="theirs"))
    await soon(service.started["theirs"].wait())
    raw.say({"jsonrpc": "2.0", "id": asked["id"], "result": {"text": "for us"}})
    assert (await soon(call)).text == "for us"
    service.open_gate("theirs").set_result("for them")
    assert await raw.hear() == {"jsonrpc": "2.0", "id": asked["id"], "result": "for them"}


async def test_the_second_answer_to_a_request_is_ignored(raw_ends):
    peer, raw = raw_ends
    first = asyncio.create_task(peer.call(SUBTRACT, Operands(2, 1)))
    asked = await raw.hear()
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": 1}
    raw.say(answer, answer | {"result": 2}, answer | {"error": {"code": 1, "message": "x"}})
    assert await soon(first) == 1
    second = asyncio.create_task(peer.call(SUBTRACT, Operands(4, 1)))
    asked = await raw.hear()
    raw.say({"jsonrpc": "2.0", "id": asked["id"], "result": 3})
    assert await soon(second) == 3


async def test_an_answer_under_an_id_of_another_type_is_not_ours(raw_ends):
    peer, raw = raw_ends
    call = asyncio.create_task(peer.call(SUBTRACT, Operands(2, 1)))
    asked = await raw.hear()
    for other in (str(asked["id"]), asked["id"] + 1000, None):
        raw.say({"jsonrpc": "2.0", "id": other, "result": 99})
    raw.say({"jsonrpc": "2.0", "id": asked["id"], "result": 1})
    assert await soon(call) == 1


async def test_the_form_of_a_result_is_named_when_it_is_wrong(raw_ends):
    peer, raw = raw_ends
    call = asyncio.create_task(peer.call(ECHO, Text("hello")))
    asked = await raw.hear()
    raw.say({"jsonrpc": "2.0", "id": asked["id"], "result": {"text": 5}})
    with pytest.raises(InvalidResult, match=r"echo result\.text: expected `str`, got `int`"):
        await soon(call)
