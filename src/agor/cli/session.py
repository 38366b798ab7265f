"""`agor session`: conversations with agents: list them, go back to them, go on with them.

What shows a conversation is imported by those who show one.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from agor.cli.asking import ask, at_most, remark
from agor.cli.moments import shown, span
from agor.cli.printable import printable
from agor.cli.prompting import prompt_from
from agor.cli.run_options import AsJson, Detach, Elsewhere, Mode, Model, Timeout
from agor.cli.session_facts import print_facts
from agor.cli.session_finding import find, short_ids
from agor.cli.tables import print_table
from agor.errors import BadInput, Conflict
from agor.protocol.api import Session, SessionStatus, Task
from agor.protocol.shares import Share

if TYPE_CHECKING:
    from agor.client import Client

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Go back to sessions, and on with them."
)

Which = Annotated[
    str | None,
    typer.Argument(
        metavar="[ID]", help="The session, or how its id begins (default: the last one here)."
    ),
]
Whose = Annotated[str, typer.Argument(metavar="ID", help="The session, or how its id begins.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]


@app.command("list")
def list_all(
    status: Annotated[
        SessionStatus | None, typer.Option(help="Only these.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """List sessions, the newest first."""

    sessions = ask(lambda client: at_most(limit, client.sessions(status=status)))
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(sessions)))
        return
    short = short_ids(sessions)
    rows = [("id", "status", "agent", "since", "folder", "title")]
    rows += [
        (
            short[each.session_id],
            each.status.replace("_", " "),
            each.agentic_tool,
            shown(each.created_at)[:16],
            each.workspace,
            " ".join((each.title or "").split()),
        )
        for each in sessions
    ]
    if sessions:
        print_table(rows)
    else:
        remark("There are no sessions. agor run '…' begins one.")


@app.command()
def show(
    session: Which = None,
    conversation: Annotated[
        bool, typer.Option("--conversation", help="Also all that was said and done.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a session: where, with whom, its tasks and what they took."""

    async def work(client: Client) -> None:
        found = await find(client, session)
        tasks = [task async for task in client.tasks(found.session_id)]
        shares = await client.shares.list(found.session_id)
        if as_json:
            told = msgspec.to_builtins(found)
            told |= {"tasks": msgspec.to_builtins(tasks), "shares": msgspec.to_builtins(shares)}
            typer.echo(json.dumps(told))
            return
        print_facts(found, tasks, shares)
        if conversation:
            from agor.cli.conversing import tell

            typer.echo()
            await tell(client, found)

    ask(work)


@app.command("attach")
def attach_to(
    session: Which = None, as_json: AsJson = False, ask_elsewhere: Elsewhere = False
) -> None:
    """Show the latest of a session, follow what runs in it, and answer its questions."""
    from agor.cli.conversing import Manner, attach

    async def work(client: Client) -> int:
        found = await find(client, session)
        return await attach(client, found, Manner(as_json, ask_elsewhere))

    raise typer.Exit(ask(work))


@app.command()
def prompt(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID] PROMPT", help="What to do; - for standard input. ID: which session."
        ),
    ] = None,
    mode: Mode = None,
    model: Model = None,
    timeout: Timeout = None,
    detach: Detach = False,
    as_json: AsJson = False,
    ask_elsewhere: Elsewhere = False,
) -> None:
    """Ask the agent of a session to go on, and watch it."""
    *named, text = words or [""]
    if len(named) > 1:
        raise typer.BadParameter("Quote the prompt: agor session prompt '…'")
    from agor.cli.conversing import Ask, Manner, converse, leave_alone

    given = Ask(prompt_from(text or None), mode, model, span(timeout))

    async def work(client: Client) -> int:
        found = await find(client, named[0] if named else None)
        if detach:
            return await leave_alone(client, found, given, as_json=as_json)
        return await converse(client, found, given, Manner(as_json, ask_elsewhere))

    raise typer.Exit(ask(work))


@app.command()
def stop(
    session: Which = None,
    reason: Annotated[str | None, typer.Option(help="Why, for the record.")] = None,
) -> None:
    """Stop what runs and what waits in a session, and wait until nothing is left of it."""

    async def work(client: Client) -> list[Task]:
        found = await find(client, session)
        tasks = [each async for each in client.tasks(found.session_id) if each.ended_at is None]
        # Those that wait come first: they would begin otherwise.
        for each in tasks:
            await client.stop_task(each.task_id, reason=reason)
        return [await client.wait_task(each.task_id) for each in tasks]

    stopped = ask(work)
    for task in stopped:
        left = f", and {task.survivors} processes are left" if task.survivors else ""
        typer.echo(f"{task.task_id} is {task.status.replace('_', ' ')}{left}")
    if not stopped:
        remark("Nothing runs in it.")


@app.command()
def delete(
    session: Whose,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a session and all that was said in it."""

    async def look(client: Client) -> Session:
        found = await find(client, session)
        if found.status not in ("idle", "failed", "archived"):
            raise Conflict(
                "this session has work to do",
                hint=f"Stop it first: agor session stop {found.session_id}",
            )
        return found

    found = ask(look)
    if not yes:
        if not sys.stdin.isatty():
            raise BadInput("there is no terminal to ask at", hint="Add --yes to delete it.")
        title = f" ({printable(found.title)})" if found.title else ""
        typer.confirm(f"Delete {found.session_id}{title} for good?", abort=True, err=True)
    ask(lambda client: client.delete_session(found.session_id))
    typer.echo(f"{found.session_id} is deleted")


@app.command()
def share(
    session: Whose,
    person: Annotated[str, typer.Argument(metavar="PERSON", help="Who shall see it.")],
    may_prompt: Annotated[bool, typer.Option("--prompt", help="They may prompt as well.")] = False,
) -> None:
    """Share a session with somebody: to look at, or to prompt as well."""

    async def work(client: Client) -> Share:
        found, user = await find(client, session), await client.users.named(person)
        return await client.shares.put(
            found.session_id, user.user_id, "prompt" if may_prompt else "view"
        )

    made = ask(work)
    may = "look at it and prompt" if made.access == "prompt" else "look at it"
    typer.echo(printable(f"{made.name} may {may}: {made.session_id}"))


@app.command()
def unshare(
    session: Whose,
    person: Annotated[str, typer.Argument(metavar="PERSON", help="Who shall see it no more.")],
) -> None:
    """Share a session with somebody no more, at once."""

    async def work(client: Client) -> str:
        found, user = await find(client, session), await client.users.named(person)
        await client.shares.remove(found.session_id, user.user_id)
        return user.name

    typer.echo(printable(f"{ask(work)} cannot see it any more"))
