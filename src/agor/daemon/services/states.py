"""The lives of tasks and sessions, as tables. Pure.

queued ──► dispatching ──► running ◄──► awaiting_permission
   │            │             │               │
   │            │             ├──► stopping ◄─┤
   ▼            ▼             ▼        ▼      ▼
stopped   stopped, failed   completed · failed · stopped · timed_out
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from agor.protocol.api import SessionStatus, TaskStatus

_ENDS: Final = ("completed", "failed", "stopped", "timed_out")

#: Nothing leaves these.
ENDED: frozenset[TaskStatus] = frozenset(_ENDS)
#: The executor has it, or may have it.
UNDER_WAY: frozenset[TaskStatus] = frozenset(("running", "awaiting_permission", "stopping"))

#: What a task may become. What is not listed cannot happen.
TRANSITIONS: dict[TaskStatus, frozenset[TaskStatus]] = {
    "queued": frozenset(("dispatching", "stopped", "failed")),
    # Back into the queue if the daemon died before the executor had it.
    "dispatching": frozenset(("queued", "running", "stopped", "failed")),
    "running": frozenset(("awaiting_permission", "stopping", *_ENDS)),
    "awaiting_permission": frozenset(("running", "stopping", *_ENDS)),
    "stopping": frozenset(_ENDS),
    **{status: frozenset() for status in _ENDS},
}
assert set(TRANSITIONS) == set(get_args(TaskStatus))

_WHILE: dict[TaskStatus, SessionStatus] = {
    "dispatching": "queued",
    "running": "running",
    "awaiting_permission": "awaiting_permission",
    "stopping": "stopping",
}


def check_move(before: TaskStatus, after: TaskStatus) -> None:
    """Refuse what cannot happen to a task: it would be a bug of ours."""
    if after not in TRANSITIONS[before]:
        raise AssertionError(f"a task cannot go from {before} to {after}")


def session_status(
    current: TaskStatus | None, waiting: int, last: TaskStatus | None, *, archived: bool
) -> SessionStatus:
    """Tell a session's status from its tasks: the current one, those that wait, the last ended."""
    if current is not None and current in _WHILE:
        return _WHILE[current]
    if waiting:
        return "queued"
    if archived:
        return "archived"
    return "failed" if last in ("failed", "timed_out") else "idle"


def end_of(result: str, code: str | None, *, stopping: bool) -> TaskStatus:
    """Tell how a task ended from what its executor reported."""
    if result == "completed":
        return "completed"
    if stopping or result == "cancelled":
        return "stopped"
    return "timed_out" if code == "timed_out" else "failed"


def allowed_before(after: TaskStatus) -> Sequence[TaskStatus]:
    """List the states from which a task may become this."""
    return [before for before, allowed in TRANSITIONS.items() if after in allowed]
