"""Tasks: prompt, list, look at, move in the queue, stop. And the conversation they make."""

from __future__ import annotations

from agor.daemon.api.forms import PageQuery, TasksQuery
from agor.daemon.api.route import Request
from agor.protocol.api import (
    Messages,
    NewPrompt,
    Page,
    PromptAccepted,
    Task,
    TaskMove,
    TaskStop,
)


async def prompt(request: Request[NewPrompt]) -> PromptAccepted:
    """Take a prompt; it runs when it is its turn."""
    return await request.services.tasks.prompt(
        request.who, request.id, request.form, request.receipt
    )


async def page(request: Request[TasksQuery]) -> Page[Task]:
    """List the tasks of a session."""
    asked = request.form
    return await request.services.tasks.page(
        request.who, request.id, asked.status, asked.cursor, asked.limit
    )


async def get(request: Request[None]) -> Task:
    """Show a task."""
    return await request.services.tasks.get(request.who, request.id)


async def move(request: Request[TaskMove]) -> Task:
    """Move a task in its session's queue."""
    return await request.services.tasks.move(request.who, request.id, request.form)


async def stop(request: Request[TaskStop]) -> Task:
    """Stop a task, or take it out of the queue."""
    return await request.services.task_stops.stop(
        request.who, request.id, request.form, request.receipt
    )


async def messages(request: Request[PageQuery]) -> Messages:
    """Show a session's conversation."""
    asked = request.form
    return await request.services.conversations.page(
        request.who, request.id, asked.cursor, asked.limit
    )
