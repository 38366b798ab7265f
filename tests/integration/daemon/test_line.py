"""Whoever appends to a session's line is told how that ended, however it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from agor.daemon.services.line import Entry, Line
from agor.daemon.store.base import Statement, Write
from agor.errors import StoreError, StoreUnavailable
from tests.integration.daemon.in_process import soon


class Commits:
    """As much of a store as a line needs; what is refused fails in the way that a test wants."""

    def __init__(self, *faults: BaseException) -> None:
        self._faults = list(faults)
        self.writes: list[Write] = []

    async def commit(self, write: Write) -> None:
        if self._faults:
            raise self._faults.pop(0)
        self.writes.append(write)

    @property
    def said(self) -> list[bytes]:
        return [body for write in self.writes for run in write.events for body in run.bodies]


class Told:
    """Who follows the line."""

    def __init__(self, fault: Exception | None = None) -> None:
        self._fault = fault
        self.bodies: list[bytes] = []

    def publish(self, first: int, bodies: list[bytes]) -> None:
        self.bodies += bodies
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault


def line_into(store: Commits, told: Told | None = None) -> Line:
    return Line(1, 0, store, (told or Told()).publish)  # type: ignore[arg-type]


def an_entry(word: str = "x", *, patient: bool = False) -> Entry:
    entry = Entry(patient=patient)
    entry.tell("task", None, {"word": word})
    return entry


async def test_an_entry_over_which_the_store_was_closed_fails():
    """Closing a store cancels what still waits in it."""
    line = line_into(Commits(asyncio.CancelledError()))
    with pytest.raises(StoreUnavailable, match="closed"):
        await soon(line.append(an_entry(patient=True)))


async def test_a_follower_with_a_bug_does_not_hold_the_session_up():
    told = Told(RuntimeError("a bug of a transport"))
    line = line_into(Commits(), told)
    assert await soon(line.append(an_entry())) == 1
    assert await soon(line.append(an_entry())) == 2
    assert len(told.bodies) == 2


async def test_an_entry_whose_statements_cannot_be_made_fails_alone():
    def make(first: int) -> Sequence[Statement]:
        raise ValueError("a bug of ours")

    store = Commits()
    line = line_into(store)
    broken = an_entry()
    broken.make_statements = make
    entries = [an_entry("before"), broken, an_entry("after")]
    done = [line.append(entry) for entry in entries]
    with pytest.raises(ValueError, match="a bug of ours"):
        await soon(done[1])
    assert [await soon(done[0]), await soon(done[2])] == [1, 2]
    assert [b"before" in store.said[0], b"after" in store.said[1]] == [True, True]


async def test_what_failed_in_company_is_tried_alone_and_keeps_its_order():
    store, told = Commits(StoreError("one of you"), StoreError("it is the first")), Told()
    line = line_into(store, told)
    done = [line.append(an_entry(word)) for word in ("poison", "second", "third")]
    with pytest.raises(StoreError, match="it is the first"):
        await soon(done[0])
    assert [await soon(each) for each in done[1:]] == [1, 2]
    assert told.bodies == store.said
    assert [b"second" in store.said[0], b"third" in store.said[1]] == [True, True]


async def test_in_an_outage_who_has_time_waits_and_nobody_else_does():
    store = Commits(StoreUnavailable("for a moment"))
    line = line_into(store)
    patient, hasty = line.append(an_entry("a", patient=True)), line.append(an_entry("b"))
    with pytest.raises(StoreUnavailable):
        await soon(hasty)
    assert not patient.done()
    assert await soon(patient) == 1
    assert len(store.said) == 1


async def test_who_has_no_more_time_is_told_so():
    store = Commits(*(StoreUnavailable("still") for _ in range(1000)))
    line = line_into(store)
    entry = an_entry(patient=True)
    done = line.append(entry)
    other = line.append(an_entry(patient=True))
    line.hasten(entry)
    with pytest.raises(StoreUnavailable):
        await soon(done)
    assert not other.done()
    line.give_up()
    with pytest.raises(StoreUnavailable):
        await soon(other)
    await soon(line.flushed())
    assert store.writes == []


async def test_what_is_not_urgent_goes_with_what_is():
    """The beginning of a block alone would only have its first word wait for another commit."""
    store = Commits()
    line = line_into(store)
    beginning, word = an_entry("begins"), an_entry("says")
    beginning.urgent = False
    began = line.append(beginning)
    # It has got as far as it gets by itself.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert store.writes == []
    line.append(word)
    assert await soon(began) == 1
    assert await soon(word.done) == 2
    assert len(store.writes) == 1


async def test_what_is_not_urgent_is_stored_without_anything_that_is():
    store = Commits()
    line = line_into(store)
    entry = an_entry()
    entry.urgent = False
    assert await soon(line.append(entry)) == 1


async def test_an_entry_that_becomes_urgent_while_it_waits_goes_at_once():
    store = Commits()
    line = line_into(store)
    entry = an_entry()
    entry.urgent = False
    line.append(entry)
    await asyncio.sleep(0)
    entry.urgent = True
    line.urge()
    assert await soon(entry.done) == 1


async def test_no_event_of_a_task_follows_its_last_one():
    store = Commits()
    line = line_into(store)
    entry = an_entry()
    entry.begin_task("t", {"status": "queued"})
    line.append(entry)
    last = Entry()
    last.end_task("t", {"status": "stopped"})
    with pytest.raises(AssertionError, match="no event may follow"):
        last.tell("permission", "t", {})
    line.append(last)
    late = Entry(patient=True)
    late.tell("permission", "t", {})
    # Not even while the last one is on its way.
    with pytest.raises(AssertionError, match="no event may follow"):
        line.append(late)
    await soon(line.flushed())
    with pytest.raises(AssertionError, match="no event may follow"):
        line.append(late)
    assert [b"queued" in body for body in store.said] == [False, True, False]
    assert len(store.said) == 3


async def test_a_task_whose_end_could_not_be_stored_goes_on():
    store = Commits(StoreUnavailable("for a moment"))
    line = line_into(store)
    line.open_tasks = {"t"}
    last = Entry()
    last.end_task("t", {"status": "stopped"})
    with pytest.raises(StoreUnavailable):
        await soon(line.append(last))
    more = Entry()
    more.tell("log", "t", {})
    assert await soon(line.append(more)) == 1
