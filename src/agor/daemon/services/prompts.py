"""A person's prompt as the first block of its task."""

from __future__ import annotations

import msgspec

from agor.daemon.services.line import Entry
from agor.daemon.store import messages
from agor.daemon.store.base import Statement
from agor.daemon.store.rows import MessageRow, TaskRow
from agor.protocol.events import BlockComplete, BlockDelta, BlockStart


def tell_prompt(entry: Entry, session_number: int, task: TaskRow) -> None:
    """Add the block of a task's prompt to an entry."""
    block_id = f"{task.task_id}-prompt"
    start = BlockStart(block_id=block_id, kind="user_message")
    offset = len(entry.events)
    entry.tell("block_start", task.task_id, start)
    entry.tell("block_delta", task.task_id, BlockDelta(block_id, 0, task.prompt))
    entry.tell("block_complete", task.task_id, BlockComplete(block_id, 1, len(task.prompt)))

    def statements(first: int) -> list[Statement]:
        return [
            messages.start(
                MessageRow(
                    session_number=session_number,
                    sequence=first + offset,
                    last_sequence=first + offset + 2,
                    block_id=block_id,
                    task_id=task.task_id,
                    kind="user_message",
                    start=msgspec.json.encode(start),
                    status=None,
                    reason=None,
                    tool_input=None,
                    length=len(task.prompt),
                    is_error=False,
                )
            )
        ]

    entry.make_statements = statements
