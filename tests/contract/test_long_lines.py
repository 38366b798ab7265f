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
