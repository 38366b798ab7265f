"""Keys in the words of errors and remarks: taken out, and nothing else."""

from __future__ import annotations

from agor.executor.discretion import Discretion
from agor.protocol.events import BlockDelta, Log, Problem

LONG, LONGER = "sk-0123456789", "sk-0123456789-more"


def test_keys_are_taken_out_of_errors_and_remarks_the_longest_first():
    discretion = Discretion()
    discretion.note(LONG)
    discretion.note(LONGER)
    told = discretion.event(Log("warning", f"{LONGER} and {LONG}"))
    assert told == Log("warning", "… and …")
    problem = discretion.event(Problem("bad_api_key", f"no: {LONG}", f"not {LONGER}"))
    assert problem == Problem("bad_api_key", "no: …", "not …")


def test_what_was_said_stays_as_it_is_and_short_keys_change_no_words():
    discretion = Discretion()
    discretion.note(LONG)
    discretion.note("on")
    delta = BlockDelta("b", 0, f"the key is {LONG}")
    assert discretion.event(delta) is delta
    assert discretion.event(Log("info", "go on")) == Log("info", "go on")
