"""Ids sort in the order of their making, and nothing takes less than no time."""

import time
import uuid

import pytest

from agor.daemon.services.stamps import Ids, Stopwatch, new_id, not_before, now, time_of

#: More than are drawn at once, and more than one millisecond has room for.
MANY = 5000


def test_an_id_is_a_uuid_of_version_7_in_its_usual_spelling() -> None:
    for made in (new_id() for _ in range(MANY)):
        read = uuid.UUID(made)
        assert (read.version, read.variant, str(read)) == (7, uuid.RFC_4122, made)


def test_an_id_has_the_time_of_its_making() -> None:
    made = Ids(lambda: 0x0123456789AB).new()
    assert made.startswith("01234567-89ab-7")
    assert time_of(made) == 0x0123456789AB


def test_ids_of_one_moment_differ_and_sort_in_the_order_of_their_making() -> None:
    ids = Ids(lambda: 1)
    made = [ids.new() for _ in range(MANY)]
    assert sorted(set(made)) == made
    # Drawn are the last two groups of digits, but for the variant by half.
    for place in (*range(19, 23), *range(24, 36)):
        assert len({each[place] for each in made}) == (4 if place == 19 else 16)


def test_ids_sort_in_the_order_of_their_making_though_the_clock_is_set_back() -> None:
    times = iter((5000, 5001, 1400, 1401, 5001, 5002))
    ids = Ids(lambda: next(times))
    made = [ids.new() for _ in range(6)]
    assert sorted(made) == made
    assert [time_of(each) for each in made] == [5000, 5001, 5001, 5001, 5001, 5002]


def test_ids_sort_behind_those_that_were_made_before_a_restart() -> None:
    before = Ids(lambda: 5000)
    known = [before.new() for _ in range(10)]
    after = Ids(lambda: 1400)
    after.begin_after([known[3], known[9], known[5], "of somebody else"])
    made = [after.new() for _ in range(10)]
    assert sorted([*known, *made]) == [*known, *made]


def test_a_stopwatch_goes_on_though_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    began = now()
    watch = Stopwatch(began)
    monkeypatch.setattr(time, "time_ns", lambda: (began - 3_600_000) * 1_000_000)
    # The clock that also goes on while the machine is suspended.
    since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    later = {time.CLOCK_BOOTTIME: since_boot + 10_000_000_000}
    monkeypatch.setattr(time, "clock_gettime_ns", later.__getitem__)
    assert watch.now() >= began + 10_000
    assert watch.now() < began + 3_600_000
    assert not_before(began) == began


def test_a_stopwatch_of_what_began_before_a_restart_is_never_negative(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = now()
    monkeypatch.setattr(time, "time_ns", lambda: at * 1_000_000)
    assert Stopwatch(at - 60_000).now() >= at
    assert Stopwatch(at + 3_600_000).now() >= at + 3_600_000
