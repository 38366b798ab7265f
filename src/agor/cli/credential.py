"""`agor credential`: keeps API keys. A value is typed unseen or piped in, and never shown again."""

from __future__ import annotations

import asyncio
import getpass
import json
import sys
import time
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from agor.cli.asking import ask
from agor.cli.printable import printable
from agor.client import Client
from agor.errors import BadInput, TimedOut
from agor.protocol.credentials import LONGEST_VALUE, Credential, Rotation

#: Seconds to wait for a rotation, and between two looks at it.
_PATIENCE = 600.0
_INTERVAL = 0.1
#: In the place of a value that is not asked for yet.
_STAND_IN = "x"

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Keep the API keys that agents work with."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="For example: ANTHROPIC_API_KEY")]
Team = Annotated[bool, typer.Option("--team", help="The whole team's, instead of your own.")]


@app.command("set", context_settings={"ignore_unknown_options": True})
def set_one(
    name: Name,
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where the agent is to send its requests.")
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this agent may have it. Repeatable."),
    ] = None,
    team: Team = False,
) -> None:
    """Keep a key; its value is asked for, or read from standard input."""
    if more:
        raise BadInput(
            "the value does not belong on the command line: others can see it there, and the shell "
            "remembers it",
            hint="Leave it out and it is asked for; or pipe it in. If that was a key in use, "
            "replace it where it came from.",
        )

    async def work(client: Client, value: str, *, dry_run: bool) -> Credential:
        return await client.credentials.set(
            name, value, base_url=base_url, agents=agent or None, team=team, dry_run=dry_run
        )

    if sys.stdin.isatty():
        # Whatever else is wrong is said before somebody looks for their key.
        ask(partial(work, value=_STAND_IN, dry_run=True))
    kept = ask(partial(work, value=_typed(name), dry_run=False))
    typer.echo(f"{name} is kept{_ending(kept)}, {_whose(kept)}")


@app.command("list")
def list_all(
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON array.")] = False,
) -> None:
    """Show which keys are kept, never their values."""

    async def work(client: Client) -> list[Credential]:
        return await client.credentials.list()

    found = ask(work)
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    if not found:
        typer.echo("There are none. Add one with: agor credential set ANTHROPIC_API_KEY")
        return
    own = {each.name for each in found if each.whose == "own"}
    console = Console(highlight=False, soft_wrap=True)
    width = max(len(each.name) for each in found)
    for each in found:
        hidden = each.whose == "team" and each.name in own
        facts = [f"…{each.last_four}" if each.last_four else "…", _whose(each)]
        if hidden:
            facts.append("not used: you have your own")
        if each.agents:
            facts.append(f"for {', '.join(each.agents)}")
        if each.base_url:
            facts.append(each.base_url)
        used = each.last_used_at
        facts.append("never used" if used is None else f"used {_when(used)}")
        line = Text.assemble((f"{each.name:<{width}}", "bold"), "  ", "  ".join(facts))
        line.plain = printable(line.plain)
        console.print(line, style="dim" if hidden else "")


@app.command("delete")
def delete(name: Name, team: Team = False) -> None:
    """Keep a key no more."""

    async def work(client: Client) -> None:
        await client.credentials.delete(name, team=team)

    ask(work)
    typer.echo(f"{name} is deleted")


@app.command("rotate")
def rotate(
    lost: Annotated[
        bool,
        typer.Option(
            "--lost", help="The master key is gone and there is no copy: begin a new one."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Seal all keys with a new version of the master key. Nothing stops meanwhile."""
    found = ask(partial(_rotate, lost=lost))
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(found)))
    else:
        typer.echo(
            f"version {found.version} of the master key: {found.sealed} credentials are sealed "
            f"with it, {found.left} are not"
        )
        if found.to_do:
            typer.echo(found.to_do, err=True)
    if found.status != "done":
        raise typer.Exit(1)


async def _rotate(client: Client, *, lost: bool) -> Rotation:
    await client.credentials.rotate(lost=lost)
    deadline = time.monotonic() + _PATIENCE
    while True:
        # Asked again in any case: what was answered first is how it was at its beginning.
        found = await client.credentials.rotation()
        if found.status != "running":
            return found
        if time.monotonic() > deadline:
            raise TimedOut(
                f"the rotation goes on: {found.left} credentials are left",
                hint="It needs nobody to wait for it.",
            )
        await asyncio.sleep(_INTERVAL)


def _typed(name: str) -> str:
    """Read a value that nobody is to see; one line, without its end."""
    if sys.stdin.isatty():
        value = getpass.getpass(f"{name}: ")
    else:
        data = sys.stdin.buffer.read(LONGEST_VALUE + 3)
        try:
            value = data.decode()
        except UnicodeDecodeError:
            raise BadInput("the value is not UTF-8 text") from None
        value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        raise BadInput(
            "there is no value", hint=f"Type it, or pipe it in: agor credential set {name} < FILE"
        )
    return value


def _ending(credential: Credential) -> str:
    return f" (…{printable(credential.last_four)})" if credential.last_four else ""


def _whose(credential: Credential) -> str:
    if credential.whose == "own":
        return "your own"
    return f"team, set by {printable(credential.set_by or 'somebody who is gone')}"


def _when(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
