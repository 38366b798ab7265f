"""`agor permission`: what agents ask for, from wherever one is."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console

from agor.cli.asking import ask, at_most, remark
from agor.cli.diffs import diff_lines
from agor.cli.printable import printable
from agor.cli.rule_view import print_preview
from agor.cli.tables import print_table
from agor.cli.tool_calls import brief, changes_of, details
from agor.errors import BadInput, NotFound
from agor.protocol.api import DecisionScope, Permission, PermissionStatus
from agor.protocol.rules import NewRule, RulePreview
from agor.protocol.validation import quoted

if TYPE_CHECKING:
    from agor.client import Client

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="See what agents ask for, and answer."
)

_WHOLE = 36
_SHORTEST = 4
_HINT = "`agor permission list` lists what is asked now."

Which = Annotated[str, typer.Argument(metavar="ID", help="The request, or how its id begins.")]
Scope = Annotated[
    DecisionScope, typer.Option(help="For how much else the same answer is good from now on.")
]
Reason = Annotated[str | None, typer.Option(help="Why, for the agent and for the record.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]


@app.command("list")
def list_all(
    every: Annotated[bool, typer.Option("--all", help="Also those that are answered.")] = False,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """List what is asked now, the newest first."""

    status: PermissionStatus | None = None if every else "pending"
    found = ask(lambda client: at_most(limit, client.permissions(status=status)))
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(found)))
        return
    rows = [("id", "session", "status", "tool", "on")]
    for each in found:
        words = brief(each.tool_name, each.tool_input)
        state = _left(each) if each.status == "pending" else each.status.replace("_", " ")
        rows.append((each.permission_id, each.session_id[:13], state, each.tool_name, words))
    if found:
        print_table(rows)
    else:
        remark("Nothing is asked.")


@app.command()
def show(request: Which, as_json: Json = False) -> None:
    """Show all of a request: what the agent wants to do, to the last line."""
    asked = ask(lambda client: _find(client, request))
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(asked)))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(printable(f"{asked.tool_name}: {asked.status}"), style="bold", markup=False)
    for line in details(asked.tool_input):
        console.print(printable(f"  {line}"), markup=False)
    for text in diff_lines(changes_of(asked.tool_input), sys.maxsize):
        console.print(text)


@app.command()
def allow(
    request: Which,
    scope: Scope = "once",
    reason: Reason = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Save a rule without asking.")] = False,
) -> None:
    """Allow what an agent asks for; with a scope, exactly the same from now on, too."""
    asked = ask(lambda client: _find(client, request))
    if asked.status == "pending" and scope in ("workspace", "user"):
        _confirm(asked, scope, sure=yes)
    ask(lambda client: client.decide(asked.permission_id, True, scope=scope, reason=reason))
    typer.echo(printable(f"{asked.tool_name} is allowed"))


@app.command()
def deny(request: Which, scope: Scope = "once", reason: Reason = None) -> None:
    """Deny what an agent asks for, and tell it why."""
    asked = ask(lambda client: _find(client, request))
    ask(lambda client: client.decide(asked.permission_id, False, scope=scope, reason=reason))
    typer.echo(printable(f"{asked.tool_name} is denied"))


def _confirm(asked: Permission, scope: DecisionScope, *, sure: bool) -> None:
    """Show what a rule would have allowed so far, and ask whether to save it."""

    async def work(client: Client) -> RulePreview:
        session = await client.session(asked.session_id)
        return await client.rules.preview(
            NewRule(
                effect="allow",
                tool=asked.tool_name.replace("\\", "\\\\").replace("*", "\\*"),
                scope="workspace" if scope == "workspace" else "user",
                scope_id=session.workspace if scope == "workspace" else None,
                exact_input=asked.tool_input,
            )
        )

    print_preview(ask(work), Console(stderr=True, soft_wrap=True, highlight=False))
    if sure:
        return
    if not sys.stdin.isatty():
        raise BadInput("there is no terminal to ask at whether to save it", hint="Add --yes.")
    typer.confirm("Save it?", abort=True, err=True)


async def _find(client: Client, named: str) -> Permission:
    if len(named) >= _WHOLE:
        return await client.permission(named)
    found = [each async for each in client.permissions(status="pending")]
    fitting = [each for each in found if each.permission_id.startswith(named.lower())]
    if len(named) < _SHORTEST or not fitting:
        raise NotFound(f"nothing is asked as {quoted(named)}", hint=_HINT)
    if len(fitting) > 1:
        raise BadInput(f"{len(fitting)} requests begin with {named}", hint="Say more of the id.")
    return fitting[0]


def _left(asked: Permission) -> str:
    seconds = max(0, asked.expires_at - time.time_ns() // 1_000_000) // 1000
    return f"for {seconds // 60} min" if seconds >= 120 else f"for {seconds} s"
