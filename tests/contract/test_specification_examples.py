"""Every example of section 7 of the JSON-RPC 2.0 specification, over a real socket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.raw_end import RawEnd, request
from tests.contract.service import Service

#: What is said, and what must come back: nothing, an answer, or a list of them. Of errors only the
#: code and the id are given by the specification's meaning; messages and data are ours.
EXAMPLES: dict[str, tuple[str, Any]] = {
    "positional parameters": (
        '{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}',
        {"jsonrpc": "2.0", "result": 19, "id": 1},
    ),
    "positional parameters, the other way round": (
        '{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}',
        {"jsonrpc": "2.0", "result": -19, "id": 2},
    ),
    "named parameters": (
        (
            '{"jsonrpc": "2.0", "method": "subtract",'
            ' "params": {"subtrahend": 23, "minuend": 42}, "id": 3}'
        ),
        {"jsonrpc": "2.0", "result": 19, "id": 3},
    ),
    "named parameters, the other way round": (
        (
            '{"jsonrpc": "2.0", "method": "subtract",'
            ' "params": {"minuend": 42, "subtrahend": 23}, "id": 4}'
        ),
        {"jsonrpc": "2.0", "result": 19, "id": 4},
    ),
    "a notification": ('{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}', None),
    "a notification of what is not served": ('{"jsonrpc": "2.0", "method": "foobar"}', None),
    "non-existent method": (
        '{"jsonrpc": "2.0", "method": "foobar", "id": "1"}',
        {"jsonrpc": "2.0", "error": {"code": -32601}, "id": "1"},
    ),
    "invalid JSON": (
        '{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]',
        {"jsonrpc": "2.0", "error": {"code": -32700}, "id": None},
    ),
    "invalid request object": (
        '{"jsonrpc": "2.0", "method": 1, "params": "bar"}',
        {"jsonrpc": "2.0", "error": {"code": -32600}, "id": None},
    ),
    "a batch of invalid JSON": (
        (
            '[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},'
            ' {"jsonrpc": "2.0", "method"]'
        ),
        {"jsonrpc": "2.0", "error": {"code": -32700}, "id": None},
    ),
    "an empty array": ("[]", {"jsonrpc": "2.0", "error": {"code": -32600}, "id": None}),
    "an invalid batch, not empty": (
        "[1]",
        [{"jsonrpc": "2.0", "error": {"code": -32600}, "id": None}],
    ),
    "an invalid batch": (
        "[1,2,3]",
        [{"jsonrpc": "2.0", "error": {"code": -32600}, "id": None}] * 3,
    ),
    "a batch": (
        (
            '[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},'
            ' {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},'
            ' {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},'
            ' {"foo": "boo"},'
            ' {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},'
            ' {"jsonrpc": "2.0", "method": "get_data", "id": "9"}]'
        ),
        [
            {"jsonrpc": "2.0", "result": 7, "id": "1"},
            {"jsonrpc": "2.0", "result": 19, "id": "2"},
            {"jsonrpc": "2.0", "error": {"code": -32600}, "id": None},
            {"jsonrpc": "2.0", "error": {"code": -32601}, "id": "5"},
            {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"},
        ],
    ),
    "a batch of notifications": (
        (
            '[{"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},'
            ' {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]'
        ),
        None,
    ),
}


def without_our_words(answer: Any) -> Any:
    """Leave of an error its code only, having seen that it has a message."""
    if isinstance(answer, list):
        return [without_our_words(one) for one in answer]
    if "error" in answer:
        assert isinstance(answer["error"]["message"], str)
        assert answer["error"]["message"]
        return answer | {"error": {"code": answer["error"]["code"]}}
    return answer


def in_any_order(answer: Any) -> Any:
    if isinstance(answer, list):
        return sorted(answer, key=lambda one: json.dumps(one, sort_keys=True))
    return answer


@pytest.mark.parametrize(("said", "expected"), EXAMPLES.values(), ids=EXAMPLES.keys())
async def test_the_example_is_answered_as_the_specification_says(
    raw: RawEnd, said: str, expected: Any
):
    raw.write(said.encode() + b"\n")
    if expected is not None:
        assert in_any_order(without_our_words(await raw.hear())) == in_any_order(expected)
    # Nothing else came in between, and the connection is as good as before.
    answer = await raw.ask(request("after", "subtract", 2, 1))
    assert answer == {"jsonrpc": "2.0", "id": "after", "result": 1}


async def test_the_notifications_of_the_examples_are_carried_out(raw: RawEnd, service: Service):
    for said, expected in EXAMPLES.values():
        if expected is None:
            raw.write(said.encode() + b"\n")
    await raw.ask(request("after", "subtract", 2, 1))
    assert service.heard == [
        ("update", [1, 2, 3, 4, 5]),
        ("notify_sum", [1, 2, 4]),
        ("notify_hello", [7]),
    ]


async def test_all_examples_in_one_write_are_answered_one_by_one(raw: RawEnd):
    raw.write(b"".join(said.encode() + b"\n" for said, _ in EXAMPLES.values()))
    for _, expected in EXAMPLES.values():
        if expected is not None:
            assert in_any_order(without_our_words(await raw.hear())) == in_any_order(expected)
