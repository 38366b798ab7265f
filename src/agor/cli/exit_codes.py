"""How `agor run`, `agor session attach` and `agor session prompt` end, for scripts."""

from __future__ import annotations

from agor.protocol.api import TaskStatus

COMPLETED = 0
FAILED = 1
#: The agent asked for something, and there was nobody to say yes.
NOBODY_TO_ASK = 3
TIMED_OUT = 124
#: The task was stopped, or left alone with Ctrl-C.
STOPPED = 130

BY_STATUS: dict[TaskStatus, int] = {
    "completed": COMPLETED,
    "failed": FAILED,
    "stopped": STOPPED,
    "timed_out": TIMED_OUT,
}
