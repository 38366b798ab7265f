"""Sends a prompt and follows its task, or attaches to what runs: what `run` and `session` share."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import typer
from msgspec import Struct
from rich.console import Console

from agor.cli import exit_codes
from agor.cli.answering import Answering, AtTheTerminal, ForWantOfAPerson
from agor.cli.asking import remark
from agor.cli.keyboard import Keyboard
from agor.cli.showing import ForPeople, ForPrograms, Showing
from agor.cli.view import EventView
from agor.cli.watching import Watch
from agor.client import Client
from agor.protocol.api import Session
from agor.protocol.methods import PermissionMode

#: Blocks of a conversation that are shown again to who attaches.
_REPLAYED = 30
#: Blocks that are asked for at once.
_PAGE = 200
_KEYS = "Ctrl-C stops, Ctrl-D leaves"


class Manner(Struct, frozen=True):
    """How somebody wants to see a session, and have its questions answered."""

    as_json: bool = False
    #: Leave questions to people at other places.
    elsewhere: bool = False


class Ask(Struct, frozen=True):
    """What is asked of an agent."""

    prompt: str
    mode: PermissionMode | None = None
    model: str | None = None
    timeout_ms: int | None = None


async def leave_alone(client: Client, session: Session, ask: Ask, *, as_json: bool) -> int:
    """Give a session a prompt, and say where it has gone; gives the exit code."""
    found = {"session_id": session.session_id, "task_id": await _send(client, session, ask)}
    typer.echo(json.dumps(found) if as_json else session.session_id)
    remark(f"agor session attach {session.session_id}  shows it")
    return exit_codes.COMPLETED


async def converse(client: Client, session: Session, ask: Ask, manner: Manner) -> int:
    """Give a session a prompt and follow it to its end; gives the exit code."""
    before = await client.messages(session.session_id, limit=1)
    task_id = await _send(client, session, ask)
    async with client.follow(session.session_id, before.sequence) as feed:
        with _place(client, session, manner, but=task_id) as (watch, _):
            return await watch.follow(feed, [task_id])


async def tell(client: Client, session: Session) -> None:
    """Print all that was said and done in a session, from the beginning."""
    pages = []
    cursor = None
    while True:
        page = await client.messages(session.session_id, cursor=cursor, limit=_PAGE)
        pages.append(page.items)
        cursor = page.next_cursor
        if cursor is None:
            break
    console = Console(highlight=False)
    with EventView(console, workspace=session.workspace) as view:
        for items in reversed(pages):
            ForPeople(console, view).replay(items, more=False)


async def attach(client: Client, session: Session, manner: Manner) -> int:
    """Show the latest of a session, and follow what runs or waits in it; gives the exit code."""
    page = await client.messages(session.session_id, limit=_REPLAYED)
    tasks = [task async for task in client.tasks(session.session_id)]
    open_tasks = [task.task_id for task in tasks if task.ended_at is None]
    if not open_tasks:
        # The last one may have ended in between.
        page = await client.messages(session.session_id, limit=_REPLAYED)
    asked = [each async for each in client.permissions(status="pending")]
    pending = [each for each in reversed(asked) if each.session_id == session.session_id]
    async with client.follow(session.session_id, 0 if manner.as_json else page.sequence) as feed:
        with _place(client, session, manner) as (watch, showing):
            if isinstance(showing, ForPeople):
                showing.replay(page.items, more=page.next_cursor is not None)
            if open_tasks:
                return await watch.follow(feed, open_tasks, pending)
            while feed.cursor < page.sequence:
                showing.take(await anext(feed))
            if isinstance(showing, ForPeople) and tasks:
                showing.end(tasks[0])
    remark("Nothing runs in this session now. agor session prompt … goes on with it.")
    return exit_codes.BY_STATUS[tasks[0].status] if tasks else exit_codes.COMPLETED


async def _send(client: Client, session: Session, ask: Ask) -> str:
    accepted = await client.prompt(
        session.session_id, ask.prompt,
        permission_mode=ask.mode, model=ask.model, timeout_ms=ask.timeout_ms,
    )  # fmt: skip
    return accepted.task_id


@contextlib.contextmanager
def _place(
    client: Client, session: Session, manner: Manner, but: str | None = None
) -> Iterator[tuple[Watch, Showing]]:
    """Have somewhere to show a session, and somebody to answer its questions."""
    if manner.as_json:
        programs = ForPrograms()
        nobody = ForWantOfAPerson(client, session, programs, elsewhere=manner.elsewhere)
        yield Watch(client, session, programs, nobody), programs
        return
    console = Console(highlight=False)
    keyboard = Keyboard.find(console)
    view = EventView(console, workspace=session.workspace)
    people = ForPeople(console, view, but=but)
    if keyboard is None or manner.elsewhere:
        answering: Answering = ForWantOfAPerson(client, session, people, elsewhere=manner.elsewhere)
    else:
        answering = AtTheTerminal(keyboard, client, session, people)
    watch = Watch(client, session, people, answering)
    view.doing("starting", "" if keyboard is None else _KEYS)
    with keyboard or contextlib.nullcontext(), view:
        if keyboard is not None:
            keyboard.on_end = watch.leave
        yield watch, people
