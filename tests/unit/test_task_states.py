"""The states of a task in the executor, as a table."""

from __future__ import annotations

import asyncio
import contextlib
from itertools import product
from typing import get_args, get_type_hints

import pytest

from agor.executor.conversations import Conversations
from agor.executor.delivery import Delivery
from agor.executor.prompts import TRANSITIONS, TaskRun, TaskState
from agor.protocol.events import TaskResult
from agor.protocol.methods import ExecutePromptParams, TaskInfo

STATES = ("running", "stopping", "completed", "failed", "cancelled")
ALLOWED = {
    ("running", "stopping"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("stopping", "completed"),
    ("stopping", "failed"),
    ("stopping", "cancelled"),
}


async def task_in(state: TaskState) -> TaskRun:
    """Make a task that rests in a state: its run is ended before its first step."""
    params = ExecutePromptParams(
        session_token="token",
        session_id="session",
        task_id="task",
        agentic_tool="scripted",
        prompt="hello",
        cwd="/",
    )
    run = TaskRun(params, Delivery(1000), Conversations())
    run.result.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await run.result
    run.state = state
    return run


@pytest.mark.parametrize(("before", "after"), list(product(STATES, STATES)))
async def test_a_task_moves_along_the_table_and_not_otherwise(before, after):
    run = await task_in(before)
    if (before, after) in ALLOWED:
        run.move(after)
        assert run.state == after
    else:
        with pytest.raises(ValueError, match=f"from {before} to {after}"):
            run.move(after)
        assert run.state == before


def test_the_table_knows_every_state_that_the_wire_knows():
    assert set(TRANSITIONS) == set(STATES) == set(get_args(TaskState))
    assert set(get_args(get_type_hints(TaskInfo)["state"])) == set(STATES)


def test_nothing_leaves_an_end_and_the_ends_are_what_a_result_can_say():
    ends = {state for state, next_ones in TRANSITIONS.items() if not next_ones}
    assert ends == set(get_args(get_type_hints(TaskResult)["status"]))


def test_every_state_can_reach_an_end_without_going_in_circles():
    def longest(state: TaskState, passed: frozenset[TaskState]) -> int:
        assert state not in passed, "the table has a circle"
        return 1 + max((longest(n, passed | {state}) for n in TRANSITIONS[state]), default=0)

    assert longest("running", frozenset()) == 3


@pytest.mark.parametrize("state", ["stopping", "completed", "failed", "cancelled"])
async def test_a_stop_changes_nothing_unless_the_task_is_running(state):
    run = await task_in(state)
    run.stop("too late")
    assert run.state == state


async def test_a_stop_of_a_running_task_makes_it_stopping():
    run = await task_in("running")
    run.stop("enough")
    assert run.state == "stopping"


async def test_a_new_task_is_running_and_has_told_nothing():
    run = await task_in("running")
    info = run.info()
    assert (info.task_id, info.state) == ("task", "running")
    assert (info.last_sequence, info.acked_sequence) == (0, 0)
