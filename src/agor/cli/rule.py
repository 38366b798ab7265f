"""`agor rule`: answers to permission requests, given in advance.

Before one is saved it is shown what it would have decided so far.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from agor.cli.asking import ask, remark
from agor.cli.rule_view import print_preview, print_rules
from agor.client import Client
from agor.errors import BadInput
from agor.protocol.api import RuleEffect
from agor.protocol.rules import NewRule, PermissionRule, RuleExport

_SPAN = re.compile(r"([0-9]{1,6})([smhd])")
_MILLISECONDS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Answer permission requests in advance."
)

Effect = Annotated[RuleEffect, typer.Argument(help="What the rule says.", show_default=False)]
Tool = Annotated[str, typer.Argument(metavar="TOOL", help="For example: Bash, or mcp__git__*")]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input", "-i", metavar="MEMBER=PATTERN",
        help="What a member of the tool's input has to be, as in: command='git diff *'",
    ),
]  # fmt: skip
AnyInput = Annotated[bool, typer.Option("--any-input", help="Whatever the input is.")]
Session = Annotated[str | None, typer.Option(metavar="ID", help="In this session only.")]
Workspace = Annotated[str | None, typer.Option(metavar="PATH", help="In this workspace only.")]
Everywhere = Annotated[bool, typer.Option("--everywhere", help="In all sessions of yours.")]
Expires = Annotated[
    str | None, typer.Option(metavar="SPAN", help="After so long it ends: 30m, 8h, 7d.")
]
Reason = Annotated[str | None, typer.Option(help="Why, for the agent and for you.")]
Whose = Annotated[str | None, typer.Option(metavar="NAME", help="Whose, if not yours.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


@app.command("list")
def list_all(
    every: Annotated[bool, typer.Option("--all", help="Also those that hold no more.")] = False,
    user: Whose = None,
    as_json: AsJson = False,
) -> None:
    """List the rules that hold, the newest first."""

    async def found(client: Client) -> list[PermissionRule]:
        whose = None if user is None else (await client.users.named(user)).user_id
        listed = client.rules.list(status="all" if every else "live", user_id=whose)
        return [rule async for rule in listed]

    rules = ask(found)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(rules)))
    elif not rules:
        remark("There are no rules: people are asked, unless a task's mode decides.")
    else:
        print_rules(rules)


@app.command()
def add(
    effect: Effect,
    tool: Tool,
    inputs: Inputs = None,
    any_input: AnyInput = False,
    session: Session = None,
    workspace: Workspace = None,
    everywhere: Everywhere = False,
    expires_in: Expires = None,
    reason: Reason = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Save it without asking.")] = False,
) -> None:
    """Make a rule, after showing what it would have decided so far."""
    new = _form(effect, tool, inputs, any_input, session, workspace, everywhere, expires_in, reason)
    found = ask(lambda client: client.rules.preview(new))
    print_preview(found, Console(stderr=True, soft_wrap=True, highlight=False))
    if not yes:
        if not sys.stdin.isatty():
            raise BadInput(
                "there is no terminal to ask at whether to save it", hint="Add --yes to save it."
            )
        typer.confirm("Save it?", abort=True, err=True)
    made = ask(lambda client: client.rules.make(new))
    typer.echo(made.rule_id)


@app.command()
def preview(
    effect: Effect,
    tool: Tool,
    inputs: Inputs = None,
    any_input: AnyInput = False,
    session: Session = None,
    workspace: Workspace = None,
    everywhere: Everywhere = False,
    as_json: AsJson = False,
) -> None:
    """Show which past requests a rule would have decided; saves nothing."""
    new = _form(effect, tool, inputs, any_input, session, workspace, everywhere, None, None)
    found = ask(lambda client: client.rules.preview(new))
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(found)))
    else:
        print_preview(found, Console(soft_wrap=True, highlight=False))


@app.command()
def revoke(
    rule_ids: Annotated[list[str], typer.Argument(metavar="ID…", help="As `list` has them.")],
) -> None:
    """Have rules decide nothing any more, at once."""

    async def all_of_them(client: Client) -> None:
        for rule_id in rule_ids:
            await client.rules.revoke(rule_id)
            typer.echo(f"{rule_id} is revoked")

    ask(all_of_them)


@app.command()
def export(
    user: Whose = None,
) -> None:
    """Print all rules that hold as one JSON document; each can be sent again as it is."""

    async def exported(client: Client) -> RuleExport:
        whose = None if user is None else (await client.users.named(user)).user_id
        return await client.rules.export(user_id=whose)

    found = ask(exported)
    typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())


# ── what is asked for ────────────────────────────────────────────────────────────────────────


def _form(
    effect: RuleEffect,
    tool: str,
    inputs: list[str] | None,
    any_input: bool,
    session: str | None,
    workspace: str | None,
    everywhere: bool,
    expires_in: str | None,
    reason: str | None,
) -> NewRule:
    if (session is not None) + (workspace is not None) + everywhere != 1:
        raise BadInput(
            "where shall the rule hold?",
            hint="Say one of: --session ID, --workspace PATH, --everywhere.",
        )
    if bool(inputs) == any_input:
        raise BadInput(
            "for which input shall the rule be?",
            hint="Say --input MEMBER=PATTERN, once or more often, or --any-input.",
        )
    return NewRule(
        effect=effect,
        tool=tool,
        scope="session" if session else "workspace" if workspace else "user",
        scope_id=session or (workspace and os.path.abspath(workspace)),  # noqa: PTH100 - not resolved
        input=_patterns(inputs or []),
        expires_at=None if expires_in is None else _expiry(expires_in),
        reason=reason,
    )


def _patterns(inputs: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in inputs:
        member, equals, pattern = each.partition("=")
        if not equals or not member or member in found:
            raise BadInput(
                f"--input: {each[:60]!r} is not MEMBER=PATTERN, with each member once",
                hint="For example: --input command='git diff *'",
            )
        found[member] = pattern
    return found


def _expiry(text: str) -> int:
    found = _SPAN.fullmatch(text)
    if found is None or not int(found[1]):
        raise BadInput(f"--expires-in: {text[:40]!r} is no time", hint="For example: 30m, 8h, 7d.")
    return time.time_ns() // 1_000_000 + int(found[1]) * _MILLISECONDS[found[2]]
