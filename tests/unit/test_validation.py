"""Params: by name, by position or left out; and what is said when they are wrong."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Raw, Struct

from agor.errors import InvalidParams
from agor.protocol.validation import UNREADABLE, ParamsReader, may_hold_raw, name_the_field


class Inner(Struct):
    size: Annotated[int, Meta(ge=1)]


class Form(Struct):
    name: Annotated[str, Meta(min_length=1, max_length=10)]
    mode: Literal["fast", "slow"] = "fast"
    inner: Inner | None = None
    tags: list[str] = []
    env: dict[str, str] = {}


class AllOptional(Struct):
    name: str = "nobody"


class WithRaw(Struct):
    name: str
    payload: Raw


class WithBytes(Struct):
    data: bytes


read = ParamsReader(Form)


def refused(raw: bytes, form: type = Form) -> str:
    with pytest.raises(InvalidParams) as caught:
        ParamsReader(form)(Raw(raw))
    return caught.value.message


def test_params_by_name_and_by_position_are_the_same():
    by_name = read(Raw(b'{"name":"a","mode":"slow","inner":{"size":2},"tags":["x"]}'))
    by_position = read(Raw(b'["a","slow",{"size":2},["x"]]'))
    assert by_name == by_position == Form("a", "slow", Inner(2), ["x"])


@pytest.mark.parametrize("raw", [b"", b"null", b"{}", b"[]", b" { } ", b" [ ] "])
def test_params_that_are_left_out_are_empty(raw: bytes):
    assert ParamsReader(AllOptional)(Raw(raw)) == AllOptional()
    assert refused(raw) == "params.name: required, but missing"


def test_unknown_members_are_ignored():
    assert read(Raw(b'{"name":"a","newer":{"x":1}}')) == Form("a")


def test_params_that_are_a_list_are_not_taken_for_positions():
    numbers = ParamsReader(list[int])
    assert numbers(Raw(b"[1,2,3]")) == [1, 2, 3]
    assert numbers(Raw(b"[]")) == []
    assert refused(b'[1,"x"]', list[int]).startswith("params[1]: expected `int`")


def test_bytes_are_base64_by_name_and_by_position():
    reader = ParamsReader(WithBytes)
    assert reader(Raw(b'{"data":"aGk="}')).data == reader(Raw(b'["aGk="]')).data == b"hi"
    assert refused(b'{"data":"not base64!"}', WithBytes).startswith("params.data")


def test_a_raw_member_can_be_given_by_position_too():
    reader = ParamsReader(WithRaw)
    by_name = reader(Raw(b'{"name":"a","payload":{"x":[1,2]}}'))
    by_position = reader(Raw(b'["a",{"x":[1,2]}]'))
    assert msgspec.json.decode(by_position.payload) == msgspec.json.decode(by_name.payload)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{"name":5}', "params.name: expected `str`, got `int`"),
        (b'{"name":""}', "params.name: expected `str` of length >= 1"),
        (b'{"name":"a","mode":"medium"}', "params.mode: invalid enum value 'medium'"),
        (b'{"name":"a","inner":{}}', "params.inner.size: required, but missing"),
        (b'{"name":"a","inner":{"size":0}}', "params.inner.size: expected `int` >= 1"),
        (b'{"name":"a","inner":5}', "params.inner: expected `object | null`, got `int`"),
        (b'{"name":"a","tags":["x",5]}', "params.tags[1]: expected `str`, got `int`"),
        (b'{"name":"a","env":{"PATH":5}}', "params.env[...]: expected `str`, got `int`"),
        (b'[5]', "params.name: expected `str`, got `int`"),
        (b'["a","medium"]', "params.mode: invalid enum value 'medium'"),
        (b'["a","fast",{"size":0}]', "params.inner.size: expected `int` >= 1"),
        (b'["a","fast",{}]', "params.inner.size: required, but missing"),
        (b'["a","fast",null,[],{},6]', "params: expected at most 5 values, got 6"),
        (b"5", "params: expected `object`, got `int`"),
        (b'"name"', "params: expected `object`, got `str`"),
        (b"true", "params: expected `object`, got `bool`"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_the_name_of_the_field(raw: bytes, said: str):
    assert refused(raw) == said


@pytest.mark.parametrize("form", [Form, AllOptional, list[int], dict[str, Any]], ids=str)
@pytest.mark.parametrize(
    "raw",
    [
        b"{", b"[", b'{"name":', b"nonsense", b'{"name":"\xff"}', b'["\xff"]',
        b'{"name":"\\ud800"}',
        b"[" * 5000 + b"]" * 5000, b'{"name":' * 5000 + b"1" + b"}" * 5000, b"9" * 5000,
        b"[" + b"9" * 5000 + b"]", b'{"name":' + b"9" * 5000 + b"}", b"[1e999]", b"NaN",
    ],
    ids=lambda raw: repr(raw[:20]),
)  # fmt: skip
def test_whatever_the_bytes_the_only_error_is_invalid_params(raw: bytes, form: Any):
    message = refused(raw, form)
    assert message.startswith("params")
    assert len(message) < 300


def test_a_long_value_is_not_repeated_at_length():
    assert len(refused(b'{"name":"a","mode":"' + b"x" * 10_000 + b'"}')) < 300


def test_the_root_of_the_path_is_what_the_reader_calls_it():
    with pytest.raises(UNREADABLE) as caught:
        msgspec.json.decode(b'{"name":"a","inner":{"size":"x"}}', type=Form)
    assert name_the_field(caught.value, "echo result").startswith(
        "echo result.inner.size: expected"
    )


def test_names_keep_their_spelling():
    with pytest.raises(UNREADABLE) as caught:
        msgspec.json.decode(b"{x", type=Form)
    assert "JSON is malformed" in name_the_field(caught.value, "line")


class Leaf(Struct):
    number: int
    more: Tree | None = None


class Tree(Struct):
    leaves: list[Leaf]
    payload: dict[str, Raw] | None = None


class Plain(Struct):
    leaves: tuple[int, str]
    again: Plain | None = None


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (int, False), (type(None), False), (list[int], False), (Plain, False), (Raw, True),
        (Any, True), (list[Any], True), (Tree, True), (Leaf, True), (dict[str, Leaf], True),
    ],
)  # fmt: skip
def test_it_is_told_which_forms_may_hold_raw_json(form: Any, expected: bool):
    assert may_hold_raw(form) is expected
