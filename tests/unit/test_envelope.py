"""The envelope: what is written, what is understood, and how errors cross over and come back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from agor.errors import (
    RPC_ERRORS,
    AgorError,
    BadInput,
    Disconnected,
    HandlerFailed,
    InvalidResult,
    RpcError,
    SocketInUse,
    TimedOut,
)
from agor.protocol.envelope import (
    ABSENT,
    Answer,
    Message,
    encode_lines,
    failure,
    revive_error,
)
from agor.protocol.validation import CLOSING, Method, Notice

decode = msgspec.json.Decoder(Message).decode


def spelled(message: object) -> dict[str, Any]:
    line = encode_lines([message])
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    found: dict[str, Any] = json.loads(line)
    return found


def test_each_message_is_spelled_as_the_standard_says():
    request = Method('"m"', dict, dict).opening(1) + b"{}" + CLOSING
    assert json.loads(request) == {"jsonrpc": "2.0", "id": 1, "method": '"m"', "params": {}}
    assert request.endswith(b"\n")
    notice = Notice("m", list).line([1])
    assert json.loads(notice) == {"jsonrpc": "2.0", "method": "m", "params": [1]}
    assert spelled(Answer("x", None)) == {"jsonrpc": "2.0", "id": "x", "result": None}
    assert spelled(failure(None, HandlerFailed("no"))) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32000, "message": "no", "data": {"code": "handler_failed"}},
    }


def test_an_id_that_is_null_is_told_from_one_that_is_absent():
    assert decode(b'{"jsonrpc":"2.0","method":"m"}').id is UNSET
    assert decode(b'{"jsonrpc":"2.0","method":"m","id":null}').id is None


def test_a_result_that_is_null_is_told_from_one_that_is_absent():
    assert decode(b'{"jsonrpc":"2.0","id":1,"error":{}}').result is ABSENT
    assert bytes(decode(b'{"jsonrpc":"2.0","id":1,"result":null}').result) == b"null"


def test_payloads_stay_as_they_came():
    message = decode(b'{"jsonrpc":"2.0","method":"m","params":{ "a" : 1.0e2,"b":"\\u00fc" }}')
    assert bytes(message.params) == b'{ "a" : 1.0e2,"b":"\\u00fc" }'


def test_a_message_does_not_show_its_payload():
    message = decode(b'{"jsonrpc":"2.0","method":"m","params":{"api_key":"sk-secret"}}')
    assert "sk-secret" not in repr(message)


# ── errors there and back ────────────────────────────────────────────────────────────────────


def there_and_back(error: BaseException) -> RpcError:
    line = encode_lines([failure(1, error)])
    return revive_error(decode(line).error)


@pytest.mark.parametrize("kind", RPC_ERRORS.values(), ids=lambda kind: kind.__name__)
def test_an_rpc_error_comes_back_as_what_it_was(kind: type[RpcError]):
    error = there_and_back(kind("what happened", hint="what to do"))
    assert type(error) is kind
    assert (error.message, error.hint) == ("what happened", "what to do")
    assert (error.code, error.rpc_code) == (kind.code, kind.rpc_code)


def test_the_numbers_of_the_errors_are_those_of_the_protocol():
    assert {number: kind.code for number, kind in RPC_ERRORS.items()} == {
        -32700: "parse_error",
        -32600: "invalid_request",
        -32601: "method_not_found",
        -32602: "invalid_params",
        -32603: "internal_error",
        -32000: "handler_failed",
        -32001: "overloaded",
        -32002: "token_refused",
        -32003: "unknown_task",
        -32004: "permission_denied",
        -32005: "timed_out",
        -32006: "cancelled",
    }


@pytest.mark.parametrize("error", [BadInput("x"), Disconnected("x"), SocketInUse("x", hint="y")])
def test_any_other_error_of_ours_is_a_failed_handler_with_its_word(error: AgorError):
    revived = there_and_back(error)
    assert type(revived) is HandlerFailed
    assert (revived.code, revived.message, revived.hint) == (error.code, "x", error.hint)


@pytest.mark.parametrize("error", [ValueError("sk-secret"), KeyError("sk-secret"), SystemExit(3)])
def test_an_exception_that_is_not_ours_says_nothing_of_itself(error: BaseException):
    revived = there_and_back(error)
    assert (revived.rpc_code, revived.code) == (-32603, "internal_error")
    assert "sk-secret" not in f"{revived.message} {revived.hint}"


@pytest.mark.parametrize(
    "raw",
    [
        b"null", b"5", b'"boom"', b"[]", b"{}", b'{"code":1}', b'{"message":"x"}',
        b'{"code":"1","message":"x"}', b'{"code":1.5,"message":"x"}', b'{"code":1,"message":5}',
        b'{"code":1,"message":"x","data":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
    ids=lambda raw: raw[:30].decode(),
)  # fmt: skip
def test_an_error_of_the_wrong_form_is_an_invalid_result(raw: bytes):
    assert isinstance(revive_error(Raw(raw)), InvalidResult)


@pytest.mark.parametrize(
    "data", [None, 5, "text", [], {}, {"code": 5, "hint": []}, {"code": None}, {"hint": "h"}]
)
def test_whatever_the_data_of_an_error_the_error_comes_back(data: object):
    raw = json.dumps({"code": -32005, "message": "late", "data": data}).encode()
    error = revive_error(Raw(raw))
    assert type(error) is TimedOut
    assert (error.code, error.message) == ("timed_out", "late")
    assert error.hint == ("h" if data == {"hint": "h"} else None)


def test_a_copy_of_an_error_keeps_what_the_wire_gave_it():
    error = revive_error(Raw(b'{"code":-31999,"message":"odd","data":{"code":"w","hint":"h"}}'))
    copy = error.again()
    assert copy is not error
    assert (type(copy), copy.message, copy.hint) == (RpcError, "odd", "h")
    assert (copy.code, copy.rpc_code) == ("w", -31999)
