"""Lines that are no messages: each costs its sender an error, and its neighbours nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agor.rpc import Limits
from tests.contract.raw_end import RawEnd, notice, request
from tests.contract.service import Service
from tests.contract.waiting import soon
from tests.contract.ways import UnixPath

BEFORE, AFTER = request("before", "subtract", 2, 1), request("after", "subtract", 3, 1)

NOT_JSON = [
    b"nonsense",
    b"{",
    b"}",
    b'{"jsonrpc":"2.0","method":"note","params":{"text":"x"}',
    b'{"jsonrpc":"2.0","method":"note","params":{"text":"x"}}}',
    b"{'jsonrpc':'2.0'}",
    b'{"jsonrpc":"2.0","id":NaN,"method":"note"}',
    b'{"jsonrpc":"2.0","method":"passed_on","params":{"a":01}}',
    b'{"jsonrpc":"2.0","method":"passed_on","params":{"a":"\\x"}}',
    b'{"jsonrpc":"2.0","method":"passed_on","params":{"a":"\t"}}',
    b"\x00",
    b"\xef\xbb\xbf" + json.dumps(notice("note", text="after a byte order mark")).encode(),
    b"[1,2",
    b"[" * 5000 + b"]" * 5000,
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b'{"jsonrpc":"2.0","method":"passed_on","params":' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"subtract","params":[2,1]}',
]

NOT_UTF8 = {
    "alone": b"\xff\xfe",
    "in a name": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    "in an id": b'{"jsonrpc":"2.0","id":"\xff","method":"subtract","params":[2,1]}',
    "in a payload that stays raw": (
        b'{"jsonrpc":"2.0","method":"passed_on","params":{"text":"\xc3\x28"}}'
    ),
    "in a member nobody reads": (
        b'{"jsonrpc":"2.0","method":"passed_on","params":{},"extra":"\xe2\x82"}'
    ),
    "in a batch": b'[{"jsonrpc":"2.0","method":"passed_on","params":{"text":"\xed\xa0\x80"}}]',
    "overlong form": b'{"jsonrpc":"2.0","method":"passed_on","params":{"text":"\xc0\xaf"}}',
}

NOT_MESSAGES = [
    (b"1", None),
    (b'"text"', None),
    (b"null", None),
    (b"true", None),
    (b"{}", None),
    (b'{"jsonrpc":"2.0"}', None),
    (b'{"jsonrpc":"2.0","id":1}', 1),
    (b'{"jsonrpc":"2.0","id":1,"params":[2,1]}', 1),
    (b'{"jsonrpc":"1.0","id":1,"method":"subtract","params":[2,1]}', 1),
    (b'{"jsonrpc":2.0,"id":1,"method":"subtract","params":[2,1]}', 1),
    (b'{"id":"a","method":"subtract","params":[2,1]}', "a"),
    (b'{"jsonrpc":"2.0","id":1,"method":7}', 1),
    (b'{"jsonrpc":"2.0","id":1,"method":null}', 1),
    (b'{"jsonrpc":"2.0","id":1,"method":["subtract"]}', 1),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"subtract","params":[2,1]}', None),
    (b'{"jsonrpc":"2.0","id":true,"method":"subtract","params":[2,1]}', None),
    (b'{"jsonrpc":"2.0","id":{},"method":"subtract","params":[2,1]}', None),
    (b'{"jsonrpc":"2.0","id":[1],"method":"subtract","params":[2,1]}', None),
    (b'{"jsonrpc":"2.0","id":9223372036854775808,"method":"subtract","params":[2,1]}', None),
    (b'{"jsonrpc":"2.0","id":-9223372036854775809,"method":"subtract","params":[2,1]}', None),
    (b'{"jsonrpc":"2.0","id":"%s","method":"subtract","params":[2,1]}' % (b"x" * 257), None),
]


async def between_neighbours(raw: RawEnd, line: bytes) -> dict[str, Any]:
    """Say a line between two good requests in one write; return what came between their answers."""
    raw.write(b"\n".join([json.dumps(BEFORE).encode(), line, json.dumps(AFTER).encode(), b""]))
    assert await raw.hear() == {"jsonrpc": "2.0", "id": "before", "result": 1}
    answer = await raw.hear()
    assert await raw.hear() == {"jsonrpc": "2.0", "id": "after", "result": 2}
    found: dict[str, Any] = answer
    return found


@pytest.mark.parametrize("line", NOT_JSON, ids=lambda line: repr(line[:40]))
async def test_what_is_not_json_is_a_parse_error(raw: RawEnd, service: Service, line: bytes):
    answer = await between_neighbours(raw, line)
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert service.passed_on == []
    assert service.notes == []


@pytest.mark.parametrize("line", NOT_UTF8.values(), ids=NOT_UTF8.keys())
async def test_what_is_not_utf8_is_a_parse_error(raw: RawEnd, service: Service, line: bytes):
    answer = await between_neighbours(raw, line)
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert service.passed_on == []


@pytest.mark.parametrize(("line", "request_id"), NOT_MESSAGES, ids=lambda part: repr(part)[:70])
async def test_json_that_is_no_message_is_an_invalid_request(
    raw: RawEnd, line: bytes, request_id: object
):
    answer = await between_neighbours(raw, line)
    assert (answer["id"], answer["error"]["code"]) == (request_id, -32600)
    assert answer["error"]["data"]["code"] == "invalid_request"


@pytest.mark.parametrize("digits", [20, 400, 5000])
async def test_a_huge_integer_as_an_id_is_refused_under_no_id(raw: RawEnd, digits: int):
    line = b'{"jsonrpc":"2.0","id":%s,"method":"subtract","params":[2,1]}' % (b"9" * digits)
    answer = await between_neighbours(raw, line)
    assert answer["id"] is None
    assert answer["error"]["code"] in (-32600, -32700)


async def test_a_character_split_over_two_writes_stays_whole(raw_ends):
    _, raw = raw_ends
    line = json.dumps(request(1, "echo", text="grüße 🎉"), ensure_ascii=False).encode() + b"\n"
    for cut in [at for at, byte in enumerate(line) if byte >= 0x80]:
        # The answer to the request before it shows that the first part has been read by itself.
        raw.write(json.dumps(BEFORE).encode() + b"\n" + line[:cut])
        assert (await raw.hear())["id"] == "before"
        raw.write(line[cut:])
        assert (await raw.hear())["result"] == {"text": "grüße 🎉"}


@pytest.mark.parametrize("gap", [b"\n", b"\n\n\n", b"\r\n", b"  \n", b"\t\r\n"])
async def test_empty_lines_and_white_space_mean_nothing(raw: RawEnd, gap: bytes):
    raw.write(gap + b"  " + json.dumps(BEFORE).encode() + b" \r\n" + gap)
    raw.write(gap + b" [" + json.dumps(AFTER).encode() + b"] \t" + gap)
    assert (await raw.hear())["id"] == "before"
    assert [answer["id"] for answer in await raw.hear()] == ["after"]


@pytest.mark.parametrize("space", [b"\x0b", b"\x0c", b"\xc2\xa0", b"\x1c"])
async def test_white_space_that_json_does_not_know_is_a_parse_error(raw: RawEnd, space: bytes):
    for line in (space, space + json.dumps([notice("note", text="x")]).encode()):
        answer = await between_neighbours(raw, line)
        assert (answer["id"], answer["error"]["code"]) == (None, -32700)


async def test_duplicate_members_and_unknown_ones_do_no_harm(raw: RawEnd):
    raw.write(
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"no","method":"subtract","params":[9,9],'
        b'"params":[2,1],"more":{"deep":[1,2,{"x":null}]}}\n'
    )
    assert await raw.hear() == {"jsonrpc": "2.0", "id": 2, "result": 1}


async def test_wrong_params_are_refused_by_the_name_of_the_field(raw: RawEnd):
    for params, named in (
        ({"minuend": 1}, "params.subtrahend: required"),
        ({"minuend": "x", "subtrahend": 1}, "params.minuend"),
        (["x", 1], "params.minuend"),
        ([1], "params.subtrahend: required"),
        ([1, 2, 3], "params: expected at most 2"),
        (7, "params"),
        (None, "params.minuend: required"),
        ({"minuend": {"a": [1]}, "subtrahend": 1}, "params.minuend: expected `int`"),
    ):
        answer = await raw.ask({"jsonrpc": "2.0", "id": 1, "method": "subtract", "params": params})
        assert (answer["id"], answer["error"]["code"]) == (1, -32602), params
        assert answer["error"]["message"].startswith(named)


async def test_a_number_that_nobody_can_hold_is_refused_as_a_param(raw: RawEnd):
    for params in (b"[%s,1]", b'{"minuend":%s,"subtrahend":1}'):
        raw.write(
            b'{"jsonrpc":"2.0","id":1,"method":"subtract","params":%s}\n' % (params % (b"9" * 5000))
        )
        answer = await raw.hear()
        assert (answer["id"], answer["error"]["code"]) == (1, -32602)


async def test_a_method_with_a_very_long_name_is_not_found_like_any_other(service: Service):
    async with UnixPath().raw(service.routes, Limits(max_line=20_000)) as (_, raw):
        answer = await raw.ask(request(1, "x" * 19_900))
        assert (answer["id"], answer["error"]["code"]) == (1, -32601)
        assert len(json.dumps(answer)) < 2000


async def test_answers_to_nothing_are_ignored(raw_ends, service: Service):
    _, raw = raw_ends
    raw.say(
        {"jsonrpc": "2.0", "id": 1, "result": 5},
        {"jsonrpc": "2.0", "id": "x", "result": 5},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?"}},
        {"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": "no"}},
        {"jsonrpc": "2.0", "result": 5},
        [{"jsonrpc": "2.0", "id": 1, "result": 5}],
    )
    assert (await raw.ask(request(1, "subtract", 2, 1)))["result"] == 1


async def test_a_second_request_under_an_id_in_flight_is_refused_and_the_first_is_answered(
    raw_ends, service: Service
):
    _, raw = raw_ends
    raw.say(request(1, "wait", name="first"))
    await soon(service.started["first"].wait())
    for second in (request(1, "wait", name="second"), request(1, "subtract", 2, 1)):
        refused = await raw.ask(second)
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    service.open_gate("first").set_result("the first")
    assert await raw.hear() == {"jsonrpc": "2.0", "id": 1, "result": "the first"}
    assert not service.started["second"].is_set()
    # Once answered, the id is free again.
    assert (await raw.ask(request(1, "subtract", 2, 1)))["result"] == 1
