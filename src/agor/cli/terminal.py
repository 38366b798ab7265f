"""`agor terminal`: shells in the workspaces of sessions: open them, leave them, come back."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from agor.cli import terminal_keys
from agor.cli.asking import ask, remark
from agor.cli.moments import shown
from agor.cli.printable import printable
from agor.cli.session_finding import find
from agor.cli.tables import print_table
from agor.errors import BadInput, Conflict, NotFound
from agor.protocol.terminal_api import Terminal
from agor.protocol.validation import quoted

if TYPE_CHECKING:
    from agor.client import Client

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Open shells where agents work.")

_SHORTEST = 4
_WHOLE = 36
_ANOTHER = "`agor terminal open` opens one."
_HINT = "`agor terminal list` lists those that are open."
_TERM = re.compile(r"[A-Za-z0-9._+-]{1,64}")
#: A shell that was ended by somebody or something has no exit code of its own.
_ENDED_BY_OTHERS = 1

Which = Annotated[
    str | None,
    typer.Argument(metavar="[ID]", help="The terminal, or how its id begins (default: the last)."),
]


@app.command("open")
def open_one(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="[SESSION]",
            help="The session, or how its id begins (default: the last one here).",
        ),
    ] = None,
    shell: Annotated[
        str | None, typer.Option(metavar="SHELL", help="Another shell than your own.")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Print its id, and do not attach to it.")
    ] = False,
) -> None:
    """Open a shell in a session's workspace, as the user its agent works as."""
    from agor.cli.terminal_screen import is_at_terminal, window

    if not detach and not is_at_terminal():
        raise BadInput("there is no terminal to show it in", hint="Add --detach to open it anyway.")

    async def work(client: Client) -> int:
        found = await find(client, session)
        cols, rows = window()
        opened = await client.open_terminal(
            found.session_id, cols=cols, rows=rows, shell=shell, term=_term()
        )
        if detach:
            typer.echo(opened.terminal_id)
            return 0
        return await _show(client, opened)

    raise typer.Exit(ask(work))


@app.command()
def attach(terminal: Which = None) -> None:
    """Come back to a terminal: what it printed last, and whatever it prints."""
    from agor.cli.terminal_screen import is_at_terminal

    if not is_at_terminal():
        raise BadInput("there is no terminal to show it in")

    async def work(client: Client) -> int:
        return await _show(client, await _find(client, terminal))

    raise typer.Exit(ask(work))


@app.command("list")
def list_all(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List your open terminals, the newest first."""
    terminals = ask(lambda client: client.open_terminals())
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(terminals)))
        return
    rows = [("id", "since", "attached", "shell", "folder")]
    rows += [
        (
            each.terminal_id,
            shown(each.created_at)[:16],
            str(each.clients),
            each.shell,
            each.cwd,
        )
        for each in terminals
    ]
    if terminals:
        print_table(rows)
    else:
        remark("No terminal is open. agor terminal open opens one.")


@app.command()
def close(
    terminal: Annotated[
        str, typer.Argument(metavar="ID", help="The terminal, or how its id begins.")
    ],
) -> None:
    """Close a terminal, with all that runs in it."""

    async def work(client: Client) -> str:
        named = terminal if len(terminal) >= _WHOLE else (await _find(client, terminal)).terminal_id
        await client.close_terminal(named)
        return named

    typer.echo(f"{ask(work)} is closed")


async def _show(client: Client, terminal: Terminal) -> int:
    """Lend our terminal to it; tells the exit code."""
    from agor.cli.terminal_screen import Screen

    if terminal.status == "ended":
        raise Conflict(f"this terminal has ended: {terminal.how}", hint=_ANOTHER)
    remark(f"{terminal.cwd} · {terminal_keys.NAME} leaves it running.")
    async with client.attach_terminal(terminal.terminal_id) as attached:
        over = await Screen(attached).show()
        ended = attached.exit
    if over == "left" or ended is None:
        remark(f"It goes on: agor terminal attach {terminal.terminal_id}")
        return 0
    if ended.exit_code is not None and ended.exit_code >= 0:
        return ended.exit_code
    remark(f"The terminal has ended: {ended.how}")
    # As a shell says it of a program that a signal has ended.
    return _ENDED_BY_OTHERS if ended.exit_code is None else 128 - ended.exit_code


async def _find(client: Client, named: str | None) -> Terminal:
    """Find an open terminal; raises `NotFound`, or `BadInput` if several are meant."""
    if named is not None and len(named) >= _WHOLE:
        return await client.terminal(named)
    if named is not None and len(named) < _SHORTEST:
        raise BadInput(f"{quoted(named)} is too short for an id", hint=_HINT)
    terminals = await client.open_terminals()
    if named is None:
        if not terminals:
            raise NotFound("no terminal is open", hint=_ANOTHER)
        return terminals[0]
    found = [each for each in terminals if each.terminal_id.startswith(named.lower())]
    if not found:
        raise NotFound(f"no open terminal begins with {quoted(named)}", hint=_HINT)
    if len(found) > 1:
        ids = "".join(f"\n{each.terminal_id}  {printable(each.cwd)}" for each in found)
        raise BadInput(f"{len(found)} terminals begin with {named}", hint=f"Say more of it:{ids}")
    return found[0]


def _term() -> str:
    """Tell what our terminal understands."""
    term = os.environ.get("TERM", "")
    return term if _TERM.fullmatch(term) and term != "dumb" else "xterm-256color"
