"""How a task has ended, and what it took: time, tokens, cost."""

from __future__ import annotations

from rich.text import Text

from agor.protocol.api import TaskState, TaskStatus

_ENDS: dict[TaskStatus, tuple[str, str]] = {
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "stopped": ("■", "yellow"),
    "timed_out": ("✗", "red"),
}


def ending(task: TaskState) -> Text:
    """Tell of a task's end on one line."""
    sign, style = _ENDS.get(task.status, ("·", ""))
    words = " · ".join((f"{sign} {task.status.replace('_', ' ')}", *facts_of(task)))
    return Text(words, f"bold {style}")


def facts_of(task: TaskState) -> list[str]:
    """Say what a task took, as far as it is known."""
    facts = []
    if task.ended_at is not None and task.started_at is not None:
        # Never negative: an earlier version took both from a clock that may have been set back.
        facts.append(f"{max(0, task.ended_at - task.started_at) / 1000:.1f} s")
    usage = task.token_usage
    if usage is not None and (usage.input or usage.output):
        cached = f" ({_count(usage.cache_read)} cached)" if usage.cache_read else ""
        facts.append(f"{_count(usage.input)} tokens in{cached}, {_count(usage.output)} out")
    if task.cost:
        facts.append(f"${task.cost:.4f}" if task.cost < 1 else f"${task.cost:.2f}")
    if task.survivors:
        facts.append(f"{task.survivors} processes are left")
    return facts


def _count(number: int) -> str:
    return str(number) if number < 10_000 else f"{number / 1000:.0f}k"
