"""The script: what is one, where it may stand, and how a bad step is named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agor.errors import BadScript
from agor.testing.model.playing import deltas
from agor.testing.model.script import find_script, parse_script, read_script
from tests.model.asking import scripted

texts = st.text(st.characters(exclude_categories=["Cs"]))


def test_a_turn_is_steps_or_one_step():
    script = read_script([[{"text": "a"}, {"text": "b"}], {"text": "c"}])
    assert [[step.text for step in turn.steps] for turn in script] == [["a", "b"], ["c"]]
    assert [turn.number for turn in script] == [0, 1]


@given(texts, texts, texts)
def test_a_script_is_found_whatever_stands_around_it(before, said, after):
    script = find_script(before + json.dumps({"model_script": [{"text": said}]}) + after)
    assert script is not None
    assert script[0].text == said


def test_the_last_script_of_a_text_counts_and_one_inside_another_does_not():
    assert find_script(scripted({"text": "a"}) + scripted({"text": "b"}))[0].text == "b"  # type: ignore[index]
    inner = {"tool": {"name": "Agent", "input": {"prompt": scripted({"text": "inner"})}}}
    [turn] = find_script(scripted([inner])) or ()
    assert turn.calls_tools
    nested = {"tool": {"name": "Write", "input": {"model_script": [{"text": "inner"}]}}}
    [turn] = find_script(scripted([nested])) or ()
    assert turn.calls_tools


def test_text_without_a_script_has_none():
    assert find_script('{"model": 1} "model_script"') is None


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ([[{"txt": "a"}]], "model_script[0][0]: object contains unknown field `txt`"),
        ([[{"text": "a"}, {}]], "model_script[0][1]: a step has exactly one member, not 0"),
        ([{"text": "a", "stop": "end"}], "model_script[0][0]: a step has exactly one member"),
        ([{"text": "a", "times": 1}], "model_script[0][0].times"),
        ([{"error": "bad_luck"}], "model_script"),
        ([{"cut": False}], "model_script"),
        ([{"delay_ms": 3_600_001}], "model_script"),
        ({"model_script": [], "more": 1}, "nothing beside it"),
        ("text", "model_script: expected `array`"),
    ],
)
def test_what_is_no_script_is_refused_by_the_name_of_the_step(document, named):
    with pytest.raises(BadScript) as caught:
        read_script(document)
    assert named in caught.value.message


@pytest.mark.parametrize("text", [b"[", b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_json_is_refused(text):
    with pytest.raises(BadScript):
        parse_script(text)


def test_a_script_that_was_cut_off_is_refused_and_not_taken_for_text():
    with pytest.raises(BadScript, match="not JSON"):
        find_script('{"model_script": [{"text": "a')


@given(texts)
def test_the_pieces_of_a_text_are_the_text(text):
    assert "".join(deltas(text)) == text


@pytest.mark.parametrize("text", ["word " * 100_000, "x" * 2_000_000])
def test_a_long_text_comes_in_a_bounded_number_of_pieces(text):
    pieces = deltas(text)
    assert "".join(pieces) == text
    assert len(pieces) < 2000
