"""Hypothesis strategies for lines: good messages, nearly good ones, JSON, and plain bytes."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut bytes at these places, in whatever order and however far beyond the end they are."""
    at = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(at) if start < end]


integers = st.integers(-(2**70), 2**70) | st.integers(-10, 10)
scalars = st.none() | st.booleans() | integers | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)
ids = st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5) | st.none() | st.just("x" * 257)
methods = st.sampled_from(
    [
        "subtract",
        "sum",
        "get_data",
        "update",
        "notify_sum",
        "foobar",
        "",
        "rpc.x",
        "$/cancelRequest",
    ]
)
params = (
    st.lists(integers, max_size=4)
    | st.fixed_dictionaries({"minuend": integers, "subtrahend": integers})
    | values
)


def _with_optional(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=optional)


requests = _with_optional(
    {"jsonrpc": st.just("2.0"), "method": methods, "id": ids}, {"params": params}
)
notifications = _with_optional({"jsonrpc": st.just("2.0"), "method": methods}, {"params": params})
#: Members that may each be missing or of any form.
near_misses = _with_optional(
    {},
    {
        "jsonrpc": st.just("2.0") | st.sampled_from(["1.0", "2", 2.0, 2, None]),
        "method": methods | scalars,
        "id": ids | values,
        "params": params,
        "result": values,
        "error": values,
        "extra": values,
    },
)
messages = requests | notifications | near_misses
batches = st.lists(messages | values, max_size=5)


def _spell(value: Any, ensure_ascii: bool, separators: tuple[str, str]) -> bytes:
    text = json.dumps(value, ensure_ascii=ensure_ascii, separators=separators)
    return text.encode("utf-8", "surrogatepass").replace(b"\n", b" ")


spelled = st.builds(
    _spell,
    messages | batches | values,
    st.booleans(),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", "  :\r ")]),
)


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    """A good line in which a few bytes are replaced, removed or doubled."""
    line = bytearray(draw(spelled))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(line) - 1)))
        line[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(line)


#: One line of any kind, without a newline in it.
lines = (spelled | _damaged() | st.binary(max_size=40)).map(lambda line: line.replace(b"\n", b" "))
