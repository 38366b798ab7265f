"""Throttled sign-in: who guesses waits, who has the password is not locked out, nothing grows."""

from __future__ import annotations

import pytest

from agor.daemon.services.people import throttle as module
from agor.daemon.services.people.throttle import (
    FREE_BY_ADDRESS,
    FREE_BY_NAME,
    LONGEST_WAIT,
    Throttle,
    place_of,
)
from agor.errors import TooManyAttempts


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> Throttle:
    return Throttle(clock)


def wait_of(throttle: Throttle, name: str | None, address: str) -> int:
    """How long one has to wait; 0 if the attempt was heard (and failed)."""
    try:
        throttle.begin(name, address)
    except TooManyAttempts as refused:
        return refused.retry_after
    return 0


def test_a_few_attempts_are_free_and_then_each_wait_is_longer(throttle: Throttle, clock: Clock):
    assert [wait_of(throttle, "ada", f"10.0.0.{n}") for n in range(FREE_BY_NAME)] == [
        0
    ] * FREE_BY_NAME
    waits = []
    for n in range(15):
        wait = wait_of(throttle, "ada", f"10.0.1.{n}")
        waits.append(wait)
        clock.now += wait
        assert wait_of(throttle, "ada", f"10.0.2.{n}") == 0, "after the wait one is heard"
    assert waits == [min(2**n, LONGEST_WAIT) for n in range(15)]
    assert max(waits) == 15 * 60


def test_being_refused_does_not_make_the_wait_longer(throttle: Throttle, clock: Clock):
    for _ in range(FREE_BY_NAME):
        wait_of(throttle, "ada", "10.0.0.1")
    assert [wait_of(throttle, "ada", "10.0.0.1") for _ in range(100)] == [1] * 100
    clock.now += 1
    assert wait_of(throttle, "ada", "10.0.0.1") == 0


def test_many_at_once_gain_nothing(throttle: Throttle):
    heard = 0
    for _ in range(50):
        try:
            throttle.begin("ada", "10.0.0.1")
        except TooManyAttempts:
            continue
        heard += 1
    assert heard == FREE_BY_NAME


def test_an_address_that_tries_many_names_has_to_wait_with_any(throttle: Throttle):
    for n in range(FREE_BY_ADDRESS):
        assert wait_of(throttle, f"user-{n}", "10.0.0.1") == 0
    assert wait_of(throttle, "another", "10.0.0.1") == 1
    assert wait_of(throttle, None, "10.0.0.1") == 1
    assert wait_of(throttle, "another", "10.0.0.2") == 0


def test_the_right_password_makes_up_for_the_wrong_ones(throttle: Throttle):
    for _ in range(3):
        for _ in range(FREE_BY_NAME - 1):
            wait_of(throttle, "ada", "10.0.0.1")
        throttle.begin("ada", "10.0.0.1").succeeded()


def test_but_not_for_those_that_were_tried_on_others(throttle: Throttle):
    for n in range(FREE_BY_ADDRESS - 1):
        wait_of(throttle, f"user-{n}", "10.0.0.1")
    throttle.begin("ada", "10.0.0.1").succeeded()
    assert wait_of(throttle, "eve", "10.0.0.1") == 0
    assert wait_of(throttle, "eve", "10.0.0.1") == 1


def test_strangers_cannot_lock_out_who_has_signed_in_from_there_before(
    throttle: Throttle, clock: Clock
):
    throttle.begin("ada", "10.0.0.1").succeeded()
    for n in range(200):
        wait_of(throttle, "ada", f"10.9.{n}.1")
    assert wait_of(throttle, "ada", "10.9.9.9") > 0
    throttle.begin("ada", "10.0.0.1").succeeded()
    # And from there, too, guessing is throttled.
    for _ in range(FREE_BY_NAME):
        assert wait_of(throttle, "ada", "10.0.0.1") == 0
    assert wait_of(throttle, "ada", "10.0.0.1") == 1


def test_what_could_not_be_looked_at_does_not_count(throttle: Throttle):
    for _ in range(10 * FREE_BY_ADDRESS):
        throttle.begin("ada", "10.0.0.1").take_back()
    assert wait_of(throttle, "ada", "10.0.0.1") == 0


def test_one_that_is_taken_back_leaves_those_of_others(throttle: Throttle):
    ours = throttle.begin("ada", "10.0.0.1")
    for _ in range(FREE_BY_NAME - 1):
        wait_of(throttle, "ada", "10.0.0.2")
    ours.take_back()
    assert wait_of(throttle, "ada", "10.0.0.3") == 1, "what others tried still counts"


def test_after_hours_nothing_is_held_against_anybody(throttle: Throttle, clock: Clock):
    for _ in range(12):
        clock.now += wait_of(throttle, "ada", "10.0.0.1")
    clock.now += 3 * 3600
    for _ in range(FREE_BY_NAME):
        assert wait_of(throttle, "ada", "10.0.0.1") == 0


def test_what_is_remembered_is_bounded(throttle: Throttle, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_KNOWN", 50)
    for n in range(500):
        throttle.begin(f"user-{n}", f"10.0.{n % 256}.{n // 256}").succeeded()
    assert len(throttle._tries) == 0, "nothing is held against them"
    assert len(throttle._friends) <= 50
    for n in range(500):
        throttle.begin(f"user-{n}", f"10.0.{n % 256}.{n // 256}")
    assert len(throttle._tries) <= 50


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("unknown", "unknown"),
    ],
)
def test_an_address_of_a_network_that_is_all_ones_own_counts_as_the_network(
    address: str, place: str
):
    assert place_of(address) == place


def test_what_does_not_count_cannot_have_others_forgotten(
    throttle: Throttle, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MOST_KNOWN", 50)
    for _ in range(FREE_BY_NAME):
        wait_of(throttle, "ada", "10.0.0.1")
    for address in ("10.0.0.1", "10.0.0.2"):
        for n in range(FREE_BY_ADDRESS):
            wait_of(throttle, f"{address}-{n}", address)
    for n in range(500):
        assert wait_of(throttle, f"made-up-{n}", "10.0.0.2") > 0
        throttle.begin(f"too-busy-{n}", "10.0.0.4").take_back()
    assert wait_of(throttle, "another", "10.0.0.1") > 0, "their other address still has to wait"
    assert wait_of(throttle, "ada", "10.0.0.3") > 0, "and so has whoever tries this name"
