"""The life of an executor, as a table."""

import itertools

import pytest

from agor.daemon.pool.states import TABLE, WARM, Happening, State, after


@pytest.mark.parametrize(("before", "happening", "then"), [(*key, to) for key, to in TABLE.items()])
def test_what_the_table_says_happens(before, happening, then):
    assert after(before, happening) is then


def test_what_the_table_does_not_say_is_a_bug():
    for state, happening in itertools.product(State, Happening):
        if (state, happening) not in TABLE:
            with pytest.raises(AssertionError, match="cannot happen"):
                after(state, happening)


def test_every_state_is_reached_and_the_end_is_final():
    assert set(TABLE.values()) | {State.STARTING} == set(State)
    assert {to for (before, _), to in TABLE.items() if before is State.ENDED} == {State.ENDED}


def test_death_ends_it_from_anywhere_and_only_the_warm_are_given_away():
    assert {after(state, Happening.DIED) for state in State} == {State.ENDED}
    assert {before for before, happening in TABLE if happening is Happening.ACQUIRED} <= WARM
