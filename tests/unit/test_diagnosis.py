"""What is wrong with a line that is no message: which error, whose request, whose answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agor.errors import InvalidRequest, ParseError
from agor.rpc.diagnosis import diagnose


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"nonsense",
        b"\xff",
        b'{"id":"\xff"}',
        b"[" * 5000,
        b'{"a":' * 5000,
        b"'x'",
        b"NaN",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_not_json_is_a_parse_error_of_nobodys(text: bytes):
    fault = diagnose(text)
    assert isinstance(fault.error, ParseError)
    assert fault.request_id is None
    assert not fault.meant_as_answer
    assert fault.error.message.startswith("line: ")


@pytest.mark.parametrize(
    ("text", "request_id"),
    [
        (b"5", None),
        (b"null", None),
        (b"[]", None),
        (b"{}", None),
        (b'{"id":1}', 1),
        (b'{"id":"x","method":5}', "x"),
        (b'{"id":null,"method":5}', None),
        (b'{"id":1.5,"method":"m"}', None),
        (b'{"id":true,"method":"m"}', None),
        (b'{"id":[1],"method":"m"}', None),
        (b'{"id":9223372036854775807}', 2**63 - 1),
        (b'{"id":9223372036854775808}', None),
        (b'{"id":"' + b"x" * 256 + b'"}', "x" * 256),
        (b'{"id":"' + b"x" * 257 + b'"}', None),
        (b'{"id":1,"method":"m","result":5}', 1),
    ],
    ids=lambda part: repr(part)[:40],
)
def test_json_that_is_no_message_is_an_invalid_request_of_its_sender(
    text: bytes, request_id: object
):
    fault = diagnose(text)
    assert isinstance(fault.error, InvalidRequest)
    assert (fault.request_id, type(fault.request_id)) == (request_id, type(request_id))
    assert not fault.meant_as_answer


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"{}", "message.jsonrpc: required, but missing"),
        (b'{"jsonrpc":"1.0"}', "message.jsonrpc: invalid enum value '1.0'"),
        (b'{"jsonrpc":"2.0","method":5}', "message.method: expected `str`, got `int`"),
        (b'{"jsonrpc":"2.0","id":1.5}', "message.id: expected `int | str | null`, got `float`"),
        (b"5", "message: expected `object`, got `int`"),
    ],
)
def test_the_member_that_is_wrong_is_named(text: bytes, named: str):
    assert diagnose(text).error.message == named


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":7,"result":5}',
        b'{"id":7,"error":{"code":1,"message":"x"}}',
        b'{"jsonrpc":"1.0","id":7,"result":null}',
        b'{"jsonrpc":2,"id":7,"result":{"deep":[1,2,3]}}',
    ],
)
def test_a_spoiled_answer_is_known_as_one(text: bytes):
    fault = diagnose(text)
    assert fault.meant_as_answer
    assert fault.request_id == 7


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":7,"result":"\\ud83d"}',
        b'{"jsonrpc":"2.0","id":7,"result":"\xff"}',
    ],
)
def test_an_answer_that_can_nearly_be_read_is_known_as_one(text: bytes):
    fault = diagnose(text)
    assert fault.meant_as_answer
    assert fault.request_id == 7


@settings(max_examples=300, deadline=None, database=None)
@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]),
                inner,
            )
        ),
        max_leaves=6,
    ).map(lambda value: json.dumps(value).encode())
)
def test_every_line_has_a_diagnosis(text: bytes):
    fault = diagnose(text)
    assert fault.error.rpc_code in (-32700, -32600)
    assert fault.request_id is None or isinstance(fault.request_id, int | str)
