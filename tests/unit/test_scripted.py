"""The script reader: what is a script, what is echoed, and how a bad step is named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agor.agents.scripted import Step, read_script
from agor.errors import BadScript

texts = st.text(st.characters(exclude_categories=["Cs"]))
counts = st.integers(0, 2**53)
tools = st.fixed_dictionaries(
    {"name": texts},
    optional={"input": st.dictionaries(texts, texts), "output": texts, "ask": st.booleans()},
)
steps = st.one_of(
    st.fixed_dictionaries({"text": texts}),
    st.fixed_dictionaries({"thinking": texts}),
    st.fixed_dictionaries({"tool": tools}),
    st.fixed_dictionaries({"key": texts}),
    st.fixed_dictionaries({"run": st.lists(texts, min_size=1)}),
    st.fixed_dictionaries({"delay_ms": counts}),
    st.fixed_dictionaries({"flood": st.fixed_dictionaries({"events": counts, "bytes": counts})}),
    st.fixed_dictionaries({"fail": texts}),
    st.fixed_dictionaries({"crash": st.integers(1, 64)}),
)


def members(step: Step) -> list[str]:
    return [name for name in step.__struct_fields__ if getattr(step, name) is not None]


@settings(deadline=None)
@given(st.lists(steps))
def test_a_json_array_of_steps_is_read_as_it_is(script):
    assert [members(step) for step in read_script(json.dumps(script))] == [
        list(step) for step in script
    ]


@settings(deadline=None)
@given(texts)
def test_any_other_text_is_echoed_whole(prompt):
    try:
        is_script = isinstance(json.loads(prompt), list)
    except ValueError:
        is_script = False
    if not is_script:
        assert read_script(prompt) == [Step(text=prompt)]


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "   ",
        "say hello",
        '{"text": "an object is no script"}',
        '"a string"',
        "17",
        "null",
        '[{"text": "unfinished"}',
        '[{"text": "followed"}] by words',
        "[" * 5000,
        "[NaN]",
    ],
)
def test_what_is_no_json_array_is_echoed(prompt):
    assert read_script(prompt) == [Step(text=prompt)]


def test_the_empty_array_is_a_script_that_says_nothing():
    assert read_script(" [ ] ") == []


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ([{"text": "ok"}, {"txt": "typo"}], "script[1]"),
        ([{"text": 5}], "script[0].text"),
        (["text"], "script[0]"),
        ([{"text": "ok"}, {}], "script[1]"),
        ([{"text": "two", "thinking": "members"}], "script[0]"),
        ([{"text": None}], "script[0]"),
        ([{"tool": {"input": {}}}], "script[0].tool.name"),
        ([{"tool": {"name": "X", "asks": True}}], "script[0].tool"),
        ([{"tool": {"name": "X", "input": []}}], "script[0].tool.input"),
        ([{"run": []}], "script[0].run"),
        ([{"run": "ls -la"}], "script[0].run"),
        ([{"run": ["ls", 1]}], "script[0].run[1]"),
        ([{"delay_ms": -1}], "script[0].delay_ms"),
        ([{"delay_ms": 1.5}], "script[0].delay_ms"),
        ([{"delay_ms": 10**400}], "script[0].delay_ms"),
        ([{"flood": {"events": -1}}], "script[0].flood.events"),
        ([{"flood": {"bytes": 1}}], "script[0].flood.events"),
        ([{"crash": 0}], "script[0].crash"),
        ([{"crash": 65}], "script[0].crash"),
        ([{"crash": "KILL"}], "script[0].crash"),
    ],
)
def test_a_bad_step_is_named(script, named):
    with pytest.raises(BadScript) as caught:
        read_script(json.dumps(script))
    place, colon, what = caught.value.message.partition(": ")
    assert (place, colon) == (named, ": ")
    assert what


def test_a_step_with_several_members_is_told_which_there_are():
    with pytest.raises(BadScript) as caught:
        read_script('[{"text": "a", "fail": "b"}]')
    assert "exactly one" in caught.value.message
    assert caught.value.hint is not None
    assert "delay_ms" in caught.value.hint


def test_a_tool_and_a_flood_have_sensible_defaults():
    tool_step, flood_step = read_script('[{"tool": {"name": "X"}}, {"flood": {"events": 2}}]')
    assert tool_step.tool is not None
    assert (tool_step.tool.input, tool_step.tool.output, tool_step.tool.ask) == ({}, "", False)
    assert flood_step.flood is not None
    assert flood_step.flood.bytes == 100
