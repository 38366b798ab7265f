"""The outbox against a simple model: whatever happens, nothing is lost, doubled or out of order."""

from __future__ import annotations

import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agor.executor.outbox import Outbox, TaskLog

MAX_BYTES = 200
TASKS = ("one", "two", "three")
tasks = st.sampled_from(TASKS)


def line(task_id: str, sequence: int, padding: int = 0) -> bytes:
    return json.dumps([task_id, sequence, "x" * padding]).encode()


class OutboxMachine(RuleBasedStateMachine):
    """Tasks report, a connection takes, a daemon acknowledges and comes back; in any order.

    The model is one list of all lines for each task, and three numbers: how many of them are
    acknowledged, how many the present connection has been given or had acknowledged before it
    came, and how many there are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.outbox = Outbox(MAX_BYTES)
        self.logs: dict[str, TaskLog] = {}
        self.lines: dict[str, list[bytes]] = {}
        self.acked: dict[str, int] = {}
        self.given: dict[str, int] = {}

    @rule(task_id=tasks, padding=st.integers(0, 2 * MAX_BYTES))
    def report(self, task_id: str, padding: int) -> None:
        if task_id not in self.logs:
            self.logs[task_id] = self.outbox.open(task_id)
            self.lines[task_id], self.acked[task_id], self.given[task_id] = [], 0, 0
        log = self.logs[task_id]
        if log.closed:
            return
        new = line(task_id, log.last_sequence + 1, padding)
        self.outbox.add(log, new)
        self.lines[task_id].append(new)

    @precondition(lambda self: not self.outbox.unsent)
    @rule(task_id=tasks)
    def report_and_send(self, task_id: str) -> None:
        log = self.logs.get(task_id)
        if log is None or log.closed:
            return
        new = line(task_id, log.last_sequence + 1)
        self.outbox.add_sent(log, new)
        self.lines[task_id].append(new)
        self.given[task_id] += 1

    @invariant()
    def the_unsent_are_counted(self) -> None:
        assert self.outbox.unsent == sum(len(log.unsent) for log in self.outbox.logs.values())

    @rule()
    def send(self) -> None:
        sent = self.outbox.next_unsent()
        if sent is None:
            assert self.given == {task: len(lines) for task, lines in self.lines.items()}
            return
        task_id, sequence, _ = json.loads(sent)
        self.given[task_id] += 1
        assert sequence == self.given[task_id], "each task's events are given in order, no gap"
        assert sent == self.lines[task_id][sequence - 1]

    @rule(task_id=tasks, sequence=st.integers(1, 12))
    def acknowledge(self, task_id: str, sequence: int) -> None:
        known = task_id in self.outbox.logs
        possible = known and sequence <= len(self.lines[task_id])
        assert self.outbox.acknowledge(task_id, sequence) is possible
        if possible:
            self.acked[task_id] = max(self.acked[task_id], sequence)
            self.given[task_id] = max(self.given[task_id], sequence)

    @rule()
    def reconnect(self) -> None:
        self.outbox.rewind()
        self.given = dict(self.acked)

    @precondition(lambda self: self.logs)
    @rule(task_id=tasks)
    def end_task(self, task_id: str) -> None:
        if task_id in self.logs and not self.logs[task_id].closed:
            # The end of a task is an event too, so there is always one to acknowledge after it.
            self.report(task_id, 0)
            self.outbox.close(self.logs[task_id])

    @invariant()
    def everything_is_unsent_unacknowledged_or_acknowledged(self) -> None:
        for task_id, log in self.logs.items():
            held = self.lines[task_id][self.acked[task_id] :]
            assert [*log.unacked, *log.unsent] == held
            assert log.last_sequence == len(self.lines[task_id])
            assert log.acked_sequence == self.acked[task_id]

    @invariant()
    def the_bytes_are_counted_over_all_tasks(self) -> None:
        held = sum(len(x) for task, xs in self.lines.items() for x in xs[self.acked[task] :])
        assert self.outbox.has_room is (held < MAX_BYTES)
        assert self.outbox.empty is (held == 0)

    @invariant()
    def only_a_settled_task_is_forgotten(self) -> None:
        for task_id, log in self.logs.items():
            settled = log.closed and self.acked[task_id] == len(self.lines[task_id])
            assert log.settled is settled
            assert (task_id in self.outbox.logs) is not settled


OutboxMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestOutbox = OutboxMachine.TestCase


def test_one_event_always_fits_however_large():
    outbox = Outbox(10)
    log = outbox.open("task")
    rooms = [outbox.has_room]
    outbox.add(log, b"x" * 1000)
    rooms.append(outbox.has_room)
    assert rooms == [True, False]
    assert outbox.next_unsent() == b"x" * 1000


def test_there_is_room_again_as_soon_as_enough_is_acknowledged():
    outbox = Outbox(10)
    log = outbox.open("task")
    for _ in range(3):
        outbox.add(log, b"12345")
    rooms = [outbox.has_room]
    for sequence in (1, 2):
        outbox.acknowledge("task", sequence)
        rooms.append(outbox.has_room)
    assert rooms == [False, False, True], "at the bound there is none, below it there is"


def test_events_sent_but_not_acknowledged_still_take_room():
    outbox = Outbox(10)
    log = outbox.open("task")
    outbox.add(log, b"1234567890")
    outbox.next_unsent()
    assert not outbox.has_room
    assert not outbox.empty


def test_an_old_acknowledgement_takes_nothing_back():
    outbox = Outbox(100)
    log = outbox.open("task")
    for number in range(1, 4):
        outbox.add(log, line("task", number))
    assert outbox.acknowledge("task", 2)
    assert outbox.acknowledge("task", 1)
    assert log.acked_sequence == 2


@pytest.mark.parametrize("backlog", [2, 100])
def test_a_task_with_one_event_does_not_wait_behind_the_backlog_of_another(backlog):
    outbox = Outbox(MAX_BYTES)
    busy, quiet = outbox.open("busy"), outbox.open("quiet")
    for number in range(1, backlog + 1):
        outbox.add(busy, line("busy", number))
    outbox.add(quiet, line("quiet", 1))
    assert line("quiet", 1) in (outbox.next_unsent(), outbox.next_unsent())
