"""The tables of tasks' and sessions' lives."""

import itertools
from typing import get_args

import pytest

from agor.daemon.services.states import (
    ENDED,
    TRANSITIONS,
    UNDER_WAY,
    check_move,
    end_of,
    session_status,
)
from agor.protocol.api import SessionStatus, TaskStatus

STATUSES = get_args(TaskStatus)

#: Written out, so that a change of the table is a decision and not a slip.
ALLOWED = {
    ("queued", "dispatching"), ("queued", "stopped"), ("queued", "failed"),
    ("dispatching", "queued"), ("dispatching", "running"), ("dispatching", "stopped"),
    ("dispatching", "failed"),
    ("running", "awaiting_permission"), ("running", "stopping"), ("running", "completed"),
    ("running", "failed"), ("running", "stopped"), ("running", "timed_out"),
    ("awaiting_permission", "running"), ("awaiting_permission", "stopping"),
    ("awaiting_permission", "completed"), ("awaiting_permission", "failed"),
    ("awaiting_permission", "stopped"), ("awaiting_permission", "timed_out"),
    ("stopping", "completed"), ("stopping", "failed"), ("stopping", "stopped"),
    ("stopping", "timed_out"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), list(itertools.product(STATUSES, STATUSES)))
def test_a_task_moves_as_the_table_says(before, after):
    if (before, after) in ALLOWED:
        check_move(before, after)
    else:
        with pytest.raises(AssertionError, match=f"from {before} to {after}"):
            check_move(before, after)


def test_nothing_leaves_an_end_and_every_end_can_be_reached():
    reached: set[TaskStatus] = set()
    found: set[TaskStatus] = {"queued"}
    while found:
        reached |= found
        found = {after for before in found for after in TRANSITIONS[before]} - reached
    assert reached == set(STATUSES)
    assert {status for status in STATUSES if not TRANSITIONS[status]} == ENDED
    assert not UNDER_WAY & ENDED


@pytest.mark.parametrize(
    ("current", "waiting", "last", "archived", "status"),
    [
        (None, 0, None, False, "idle"),
        (None, 0, "completed", False, "idle"),
        (None, 0, "stopped", False, "idle"),
        (None, 0, "failed", False, "failed"),
        (None, 0, "timed_out", False, "failed"),
        (None, 0, "failed", True, "archived"),
        (None, 2, "failed", False, "queued"),
        ("dispatching", 0, None, False, "queued"),
        ("running", 3, None, False, "running"),
        ("awaiting_permission", 0, None, False, "awaiting_permission"),
        ("stopping", 1, None, False, "stopping"),
    ],
)
def test_a_session_is_what_its_tasks_make_it(current, waiting, last, archived, status):
    assert session_status(current, waiting, last, archived=archived) == status
    assert status in get_args(SessionStatus)


@pytest.mark.parametrize(
    ("result", "code", "stopping", "status"),
    [
        ("completed", None, False, "completed"),
        ("completed", None, True, "completed"),
        ("cancelled", "cancelled", False, "stopped"),
        ("cancelled", "cancelled", True, "stopped"),
        ("failed", "agent_failed", False, "failed"),
        ("failed", "timed_out", False, "timed_out"),
        ("failed", "executor_failed", True, "stopped"),
    ],
)
def test_an_end_is_told_from_what_the_executor_reported(result, code, stopping, status):
    assert end_of(result, code, stopping=stopping) == status
