"""Lines at and over the cap, and lines that come in odd pieces."""

from __future__ import annotations

import json

import pytest

from agor.rpc import Limits
from tests.contract.raw_end import RawEnd, notice, request
from tests.contract.service import Service
from tests.contract.ways import Way

CAP = 10_000


@pytest.fixture
def limits() -> Limits:
    return Limits(max_line=CAP)


def line_of(size: int, request_id: int = 1) -> bytes:
    """Spell out a request that has exactly this many bytes, without its newline."""
    empty = json.dumps(request(request_id, "subtract", minuend=2, subtrahend=1, pad="")).encode()
    return empty.replace(b'"pad": ""', b'"pad": "' + b"x" * (size - len(empty)) + b'"')


@pytest.mark.parametrize("pieces", [1, 2, 7, 100], ids=lambda pieces: f"in {pieces} pieces")
async def test_a_line_over_the_cap_is_refused_and_its_neighbours_are_answered(
    way: Way, service: Service, limits: Limits, pieces: int
):
    data = b"\n".join([line_of(100, 1), line_of(CAP * 5, 2), line_of(100, 3), b""])
    size = -(-len(data) // pieces)
    async with way.raw(service.routes, limits) as (_, raw):
        for start in range(0, len(data), size):
            raw.write(data[start : start + size])
        first, refused, last = [await raw.hear() for _ in range(3)]
    assert (first["id"], last["id"]) == (1, 3)
    assert (refused["id"], refused["error"]["code"]) == (None, -32700)


async def test_a_line_of_exactly_the_cap_is_served_and_one_byte_more_is_not(raw: RawEnd):
    raw.write(line_of(CAP) + b"\n")
    assert (await raw.hear())["result"] == 1
    raw.write(line_of(CAP + 1) + b"\n")
    assert (await raw.hear())["error"]["code"] == -32700


async def test_many_lines_over_the_cap_are_each_refused_once(raw: RawEnd):
    raw.write((line_of(CAP * 2) + b"\n") * 20 + line_of(100, 7) + b"\n")
    codes = [(await raw.hear())["error"]["code"] for _ in range(20)]
    assert codes == [-32700] * 20
    assert (await raw.hear())["id"] == 7


async def test_one_byte_at_a_time_is_as_good_as_all_at_once(raw_ends, service: Service):
    _, raw = raw_ends
    said = [notice("note", text="ö"), request(1, "subtract", 2, 1), [request("b", "sum", 1, 2)]]
    data = b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in said)
    for byte in data:
        raw.write(bytes([byte]))
    assert await raw.hear() == {"jsonrpc": "2.0", "id": 1, "result": 1}
    assert await raw.hear() == [{"jsonrpc": "2.0", "id": "b", "result": 3}]
    assert service.notes == ["ö"]


async def test_ten_thousand_lines_in_one_write_are_answered_in_order(raw_ends):
    _, raw = raw_ends
    raw.say(*(request(number, "subtract", number, 1) for number in range(10_000)))
    for number in range(10_000):
        assert await raw.hear() == {"jsonrpc": "2.0", "id": number, "result": number - 1}


async def test_ten_thousand_bad_lines_in_one_write_are_all_refused(raw: RawEnd):
    raw.write(b"nonsense\n" * 10_000)
    for _ in range(10_000):
        assert (await raw.hear())["error"]["code"] == -32700
    assert (await raw.ask(request(1, "subtract", 2, 1)))["result"] == 1


async def test_a_result_over_the_cap_fails_its_own_request_and_no_other(raw_ends):
    _, raw = raw_ends
    raw.say(request(1, "give", 120, CAP), request(2, "subtract", 2, 1), request(3, "give", 120, 10))
    too_long, fine, short = [await raw.hear() for _ in range(3)]
    assert (too_long["id"], too_long["error"]["code"]) == (1, -32000)
    assert fine == {"jsonrpc": "2.0", "id": 2, "result": 1}
    assert short == {"jsonrpc": "2.0", "id": 3, "result": "x" * 10}


async def test_no_line_over_the_cap_is_ever_written(raw_ends):
    _, raw = raw_ends
    for size in (CAP - 60, CAP - 37, CAP - 36, CAP - 35, CAP):
        raw.say(request(1, "give", 120, size))
        assert len(await raw.line()) <= CAP


async def test_a_result_that_spans_lines_is_still_written_as_one(raw: RawEnd):
    raw.say(
        request(1, "subtract", 2, 1),
        request(2, "laid_out", text='{\n  "a": [1,\n 2]\n}'),
        [request(3, "laid_out", text='{\n  "b": 1\n}'), request(4, "subtract", 2, 1)],
        request(5, "laid_out", text='{"a": "\n"}'),
        request(6, "subtract", 2, 1),
    )
    first, laid_out, batch, broken, last = [await raw.hear() for _ in range(5)]
    assert (first["result"], last["result"]) == (1, 1)
    assert laid_out == {"jsonrpc": "2.0", "id": 2, "result": {"a": [1, 2]}}
    assert [answer["result"] for answer in batch] == [{"b": 1}, 1]
    assert (broken["id"], broken["error"]["code"]) == (5, -32603)


async def test_a_batch_whose_answers_do_not_fit_into_a_line_is_told_so_under_each_id(raw: RawEnd):
    raw.say([request(number, "give", 120, CAP // 4) for number in range(8)])
    answers = await raw.hear()
    assert [answer["id"] for answer in answers] == list(range(8))
    assert {answer["error"]["code"] for answer in answers} == {-32000}
    assert str(CAP) in answers[0]["error"]["message"]
