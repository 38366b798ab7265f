"""Which turn answers a question: read off the question alone, whoever asks it and how often."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from agor.errors import BadScript
from agor.testing.model.asked import Asked, Entry
from agor.testing.model.choosing import choose
from agor.testing.model.script import read_script
from tests.model.asking import scripted

TOOL = {"tool": {"name": "Write", "input": {}}}


def user(text: str) -> Entry:
    return Entry("user", (text,))


def model(text: str = "", *calls: str) -> Entry:
    return Entry("model", (text,), calls)


TOOL_RESULT = Entry("tool", ("done",))


def asked(*entries: Entry, tools: tuple[str, ...] = ("Write",)) -> Asked:
    return Asked(model="m", entries=entries, tools=tools)


def said(*entries: Entry, attempt: int = 0, script: Any = None) -> str:
    """The text of the turn that answers this conversation."""
    own = None if script is None else read_script(script)
    return choose(asked(*entries), own, attempt).text


THREE = scripted([{"text": "one"}, TOOL], [{"text": "two"}, TOOL], {"text": "three"})


def test_each_turn_follows_from_what_the_model_said_since():
    assert said(user(THREE)) == "one"
    assert said(user(THREE), model("one"), TOOL_RESULT) == "two"
    assert said(user(THREE), model("one"), TOOL_RESULT, model("two"), TOOL_RESULT) == "three"


def test_a_script_goes_on_over_several_prompts_and_says_when_it_has_ended():
    talk = [user(THREE), model("one"), user("Go on"), model("two"), user("Go on")]
    assert said(*talk) == "three"
    ended = said(*talk, model("three"), user("Go on"))
    assert ended == "The script has ended: all of its 3 turns were played."


def test_the_last_script_of_a_conversation_counts():
    talk = [user(THREE), model("one"), TOOL_RESULT, model("x"), user(scripted({"text": "new"}))]
    assert said(*talk) == "new"


def test_what_the_model_said_in_a_row_is_one_turn():
    assert said(user(THREE), model("one"), model(), model(), TOOL_RESULT, TOOL_RESULT) == "two"


def test_a_result_between_two_calls_of_one_turn_does_not_end_it():
    talk = [user(THREE), model("", "call_t0c0_0123456789ab"), TOOL_RESULT]
    assert said(*talk, model("", "call_t0c1_0123456789ab"), TOOL_RESULT) == "two"
    assert said(*talk, model("", "call_t1c0_0123456789ab"), TOOL_RESULT) == "three"


def test_what_the_system_says_in_between_changes_nothing():
    talk = [Entry("system", ("Be nice.",)), user(THREE), model("one"), Entry("system", ("Hm",))]
    assert said(*talk, model("still one"), TOOL_RESULT) == "two"


def test_without_a_script_the_user_is_echoed():
    assert said(user("first"), model("x"), user("  second ")) == "echo: second"
    assert said(user("x" * 1000)) == f"echo: {'x' * 200}…"
    assert said() == "echo: "


def test_the_servers_own_script_is_for_those_who_bring_none():
    own = [{"text": "own one"}, {"text": "own two"}]
    assert said(user("hi"), script=own) == "own one"
    assert said(user("hi"), model("own one"), user("and?"), script=own) == "own two"
    assert said(user(THREE), script=own) == "one"


def test_who_quotes_a_script_with_tools_and_offers_none_is_echoed():
    title = asked(user("Make a title of this: " + THREE), tools=())
    assert choose(title).text.startswith("echo: Make a title")
    plain = asked(user(scripted({"text": "no tools here"})), tools=())
    assert choose(plain).text == "no tools here"


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"type": "OBJECT", "properties": {"a": {"type": "STRING"}, "b": {"type": "INTEGER"}}},
         {"a": "echo", "b": 1}),
        ({"properties": {"x": {"enum": ["flash", "pro"]}, "y": {"type": "array"}}},
         {"x": "flash", "y": []}),
        ({"type": "number", "minimum": 7}, 7),
        ("nonsense", None),
    ],
)  # fmt: skip
def test_who_asks_for_json_by_a_schema_gets_some_that_fits(schema: object, answer: object):
    question = dataclasses.replace(asked(user(THREE), tools=()), schema=schema)
    assert json.loads(choose(question).text) == answer


def test_a_fault_happens_as_often_as_it_should():
    script = scripted([{"error": "overloaded", "times": 2}, {"text": "well"}])
    faults = [choose(asked(user(script)), None, n).until_fault() for n in range(3)]
    assert [fault is None for fault in faults] == [False, False, True]


CUT_ONCE = scripted([{"text": "I begin"}, {"cut": True, "times": 1}, {"text": " to end."}])


def test_an_agent_may_keep_what_came_before_a_cut_and_ask_again():
    again = choose(asked(user(CUT_ONCE), model("I begin")))
    assert again.number == 0
    assert again.until_fault() is None
    again = choose(asked(user(CUT_ONCE), model("I begin"), user("Go on where you were cut off")))
    assert again.text == "I begin to end."
    assert again.until_fault() is None


def test_a_turn_that_was_finished_after_a_cut_is_not_begun_again():
    kept = [user(CUT_ONCE), model("I begin"), model("I begin to end.")]
    assert said(*kept, user("And?")).startswith("The script has ended")
    dropped = [user(CUT_ONCE), model("I begin  to end.")]
    assert said(*dropped, user("And?")).startswith("The script has ended")


def test_each_kept_beginning_is_one_time():
    script = [{"text": "a"}, {"cut": True, "times": 2}, {"text": " b"}]
    once = choose(asked(user(scripted(script)), model("a")))
    twice = choose(asked(user(scripted(script)), model("a"), model("a")))
    assert once.until_fault() is not None
    assert twice.until_fault() is None


def test_a_turn_that_always_fails_is_never_passed():
    script = scripted([{"text": "a"}, {"stall": True}], {"text": "never"})
    assert said(user(script), model("a"), user("And?")) == "a"


def test_a_bad_script_is_told_and_not_echoed():
    with pytest.raises(BadScript):
        said(user(json.dumps({"model_script": [{"txt": "a"}]})))


def test_the_same_question_is_known_again_whatever_the_system_says():
    first = asked(Entry("system", ("at 10:00",)), user("hi"))
    again = asked(Entry("system", ("at 10:01",)), user("hi"))
    assert first.digest == again.digest
    assert first.digest != asked(user("hi"), tools=()).digest
    assert first.digest != asked(user("ho")).digest
