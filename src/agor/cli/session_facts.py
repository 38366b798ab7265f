"""What is known of a session: where it is, what was asked in it, and what that took."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from agor.cli.moments import shown
from agor.cli.printable import printable
from agor.cli.task_facts import facts_of
from agor.protocol.api import Session, Task
from agor.protocol.shares import Share

_LONGEST = 60


def print_facts(session: Session, tasks: list[Task], shares: list[Share]) -> None:
    """Print what is known, a fact on a line; the tasks below, the latest last."""
    for label, fact in _facts(session, shares):
        typer.echo(printable(f"{label:<10} {fact}"))
    for task in reversed(tasks):
        first = " ".join(task.prompt.split())
        words = first if len(first) <= _LONGEST else f"{first[:_LONGEST]}…"
        took = " · ".join((task.status.replace("_", " "), *facts_of(task)))
        typer.echo(printable(f"  {shown(task.created_at)}  {words}"))
        typer.echo(printable(f"    {took}"))
        if task.error is not None:
            typer.echo(printable(f"    {task.error.message}"))


def _facts(session: Session, shares: list[Share]) -> Iterator[tuple[str, str]]:
    yield "session", session.session_id
    if session.title:
        yield "title", " ".join(session.title.split())
    yield "status", session.status.replace("_", " ")
    model = f", {session.model}" if session.model else ""
    yield "agent", f"{session.agentic_tool}{model}"
    yield "mode", session.permission_mode
    yield "folder", session.workspace
    yield "since", shown(session.created_at)
    for share in shares:
        yield "shared", f"{share.name} ({share.access})"
