"""Says what JSON-RPC 2.0 demands as the answer to a line. Written with the standard `json` module
and nothing of agor, so that it cannot share a mistake with it.

It knows the methods of `service.Service` that `drawn_lines` calls.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
MAX_BATCH = 1000
#: Notifications that may also be sent as requests.
HEARD = ("update", "notify_hello", "notify_sum")


@dataclass(frozen=True)
class Wanted:
    """One answer: a result, or an error with one of these codes, under one of these ids."""

    codes: frozenset[int]
    ids: tuple[Any, ...] = (None,)
    result: Any = None

    def fits(self, answer: Any) -> bool:
        """Tell whether an answer is one of those that are allowed."""
        if not isinstance(answer, dict) or answer.get("jsonrpc") != "2.0" or "id" not in answer:
            return False
        if not any(_same(answer["id"], allowed) for allowed in self.ids):
            return False
        if not self.codes:
            return set(answer) == {"jsonrpc", "id", "result"} and answer["result"] == self.result
        if set(answer) != {"jsonrpc", "id", "error"}:
            return False
        error = answer["error"]
        return error["code"] in self.codes and isinstance(error["message"], str)


@dataclass(frozen=True)
class Either:
    """Two readings of the standard, both allowed."""

    one: Expected
    other: Expected


#: Nothing, one answer, or a list of them in one line.
Expected = Wanted | list[Wanted] | Either | None


def expect(line: bytes) -> Expected:
    """Say what must come back for one line, without its newline."""
    if not line.strip(b" \t\r"):
        return None
    unreadable = Wanted(frozenset({PARSE_ERROR}))
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        # What is meant as an answer is not answered, if that can be made out.
        return Either(unreadable, None) if _nearly_an_answer(line) else unreadable
    # Grammatical, but with half a surrogate pair, a number without end, or nested deeply: a parser
    # may refuse it, and one that does not must do what it says.
    return (
        _expect_value(value) if _representable(value) else Either(unreadable, _expect_value(value))
    )


def _nearly_an_answer(line: bytes) -> bool:
    try:
        value = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and _is_answer(value)


def _is_answer(value: dict[str, Any]) -> bool:
    return not isinstance(value.get("method"), str) and ("result" in value or "error" in value)


def _expect_value(value: Any) -> Expected:
    if not isinstance(value, list):
        return _expect_one(value)
    if not 1 <= len(value) <= MAX_BATCH:
        return Wanted(frozenset({INVALID_REQUEST}))
    wanted = [one for one in map(_expect_one, value) if one is not None]
    return wanted or None


def _expect_one(value: Any) -> Wanted | None:
    if not isinstance(value, dict):
        return Wanted(frozenset({INVALID_REQUEST}))
    if _is_answer(value):
        return None
    has_id, request_id = "id" in value, value.get("id")
    good_id = not has_id or _is_id(request_id)
    if value.get("jsonrpc") != "2.0" or not isinstance(value.get("method"), str) or not good_id:
        # The id is asked for where it can be told.
        return Wanted(frozenset({INVALID_REQUEST}), ids=(request_id if good_id else None,))
    if not value["method"]:
        return Wanted(frozenset({INVALID_REQUEST, METHOD_NOT_FOUND}), ids=(request_id,))
    if not has_id:
        return None
    return _expect_call(value["method"], value.get("params"), "params" in value, request_id)


def _expect_call(method: str, params: Any, given: bool, request_id: Any) -> Wanted:
    ids = (request_id,)
    if method == "subtract":
        numbers = _operands(params)
        if numbers is None:
            return Wanted(frozenset({INVALID_PARAMS}), ids)
        return Wanted(frozenset(), ids, result=numbers[0] - numbers[1])
    if method in ("sum", *HEARD):
        if isinstance(params, list) and all(map(_is_integer, params)):
            return Wanted(frozenset(), ids, result=sum(params) if method == "sum" else None)
        return Wanted(frozenset({INVALID_PARAMS}), ids)
    if method == "$/cancelRequest":
        named = params.get("id") if isinstance(params, dict) else None
        target = params[0] if isinstance(params, list) and len(params) == 1 else named
        if target is not None and _is_id(target):
            return Wanted(frozenset(), ids, result=None)
        return Wanted(frozenset({INVALID_PARAMS}), ids)
    if method == "get_data":
        if not given or params is None or params == [] or isinstance(params, dict):
            return Wanted(frozenset(), ids, result=["hello", 5])
        return Wanted(frozenset({INVALID_PARAMS}), ids)
    return Wanted(frozenset({METHOD_NOT_FOUND}), ids)


def _operands(params: Any) -> tuple[int, int] | None:
    if isinstance(params, dict):
        params = [params.get("minuend"), params.get("subtrahend")]
    if isinstance(params, list) and len(params) == 2 and all(map(_is_integer, params)):
        return params[0], params[1]
    return None


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_id(value: Any) -> bool:
    """Ids are echoed; ours are null, strings of sane length, and integers of 64 bits."""
    if isinstance(value, str):
        return len(value) <= 256
    return value is None or (_is_integer(value) and -(2**63) <= value < 2**63)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _representable(value: Any, depth: int = 0) -> bool:
    if depth > 100:
        return False
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(_representable(one, depth + 1) for one in value)
    if isinstance(value, dict):
        return all(_representable(part, depth + 1) for pair in value.items() for part in pair)
    return True
