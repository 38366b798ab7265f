"""The line in which writes wait for the writer."""

from __future__ import annotations

import asyncio

import pytest

from agor.daemon.store.base import Statement, Write
from agor.daemon.store.line import Bounds, Line, refuse_all
from agor.errors import StoreUnavailable
from tests.contract.waiting import soon
from tests.store.examples import some_events


def nobody() -> None:
    """Wake nobody."""


def sessions_of(group) -> list[int]:
    return [waiting.write.events[0].session_number for waiting in group]


async def test_a_group_takes_what_is_there_up_to_its_rows():
    line = Line(Bounds(group_rows=10), nobody)
    for session in range(1, 6):
        line.add(some_events(session, 1, 4))
    assert sessions_of(line.take()) == [1, 2, 3]
    assert sessions_of(line.take()) == [4, 5]
    assert line.take() == []


async def test_a_group_takes_what_is_there_up_to_its_bytes_and_one_write_at_least():
    line = Line(Bounds(group_bytes=1000), nobody)
    line.add(some_events(1, 1, 1, b"x" * 5000))
    line.add(Write([Statement("", ("x" * 400,))], some_events(2, 1, 1, b"x" * 450).events))
    line.add(some_events(3, 1, 1))
    line.add(some_events(4, 1, 1))
    assert sessions_of(line.take()) == [1]
    assert sessions_of(line.take()) == [2, 3]


async def test_the_writer_never_sees_more_than_the_bounds_and_the_order_stays():
    line = Line(Bounds(line_writes=3, line_bytes=10_000), nobody)
    waiting = [line.add(some_events(session, 1, 1)) for session in range(1, 9)]
    seen = []
    while group := line.take():
        assert len(group) <= 3
        assert line.held_writes <= 3
        seen += sessions_of(group)
        line.settle(group, {})
    assert seen == list(range(1, 9))
    assert all(each.done.done() for each in waiting)


async def test_many_bytes_wait_behind_until_there_is_room():
    line = Line(Bounds(line_bytes=1000), nobody)
    for session in range(1, 4):
        line.add(some_events(session, 1, 1, b"x" * 900))
    assert line.held_bytes < 1000 + 2 * 964
    group = line.take()
    assert sessions_of(group) == [1, 2]
    line.settle(group, {})
    assert sessions_of(line.take()) == [3]


async def test_one_who_left_keeps_his_place_also_behind():
    line = Line(Bounds(line_writes=1), nobody)
    waiting = [line.add(some_events(session, 1, 1)) for session in (1, 2, 3)]
    waiting[1].done.cancel()
    seen = []
    while group := line.take():
        seen += sessions_of(group)
        line.settle(group, {})
    assert seen == [1, 2, 3]


async def test_each_caller_hears_of_his_own_write():
    line = Line(Bounds(), nobody)
    waiting = [line.add(some_events(session, 1, 1)) for session in (1, 2, 3)]
    line.settle(line.take(), {1: StoreUnavailable("no", hint="yes")})
    assert [each.done.exception() is None for each in waiting] == [True, False, True]


async def test_one_error_for_many_is_raised_as_many():
    line = Line(Bounds(), nobody)
    waiting = [line.add(some_events(session, 1, 1)) for session in (1, 2)]
    group = line.take()
    line.settle(group, refuse_all(group, StoreUnavailable("no", hint="yes")))
    first, second = (each.done.exception() for each in waiting)
    assert isinstance(first, StoreUnavailable)
    assert isinstance(second, StoreUnavailable)
    assert first is not second
    assert (first.message, first.hint) == (second.message, second.hint) == ("no", "yes")


async def test_draining_waits_for_all_that_is_held():
    line = Line(Bounds(line_writes=1), nobody)
    await line.drain()
    for session in (1, 2):
        line.add(some_events(session, 1, 1))
    draining = asyncio.create_task(line.drain())
    for _ in (1, 2):
        await asyncio.sleep(0)
        assert not draining.done()
        line.settle(line.take(), {})
    await soon(draining)


async def test_the_abandoned_are_let_go():
    line = Line(Bounds(line_writes=1), nobody)
    waiting = [line.add(some_events(session, 1, 1)) for session in (1, 2)]
    line.abandon()
    for each in waiting:
        with pytest.raises(asyncio.CancelledError):
            await each.done
