"""`agor user`: those who may use this daemon.

A password is typed at the terminal or read from standard input; it is never an argument, which
every process of the machine could read.
"""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from agor.cli.asking import ask, prompt_new_password, read_secret, remark
from agor.cli.printable import printable
from agor.cli.tables import print_table
from agor.client import Client
from agor.protocol.people import Role, User

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Add people, and say what they may do."
)


class RoleName(StrEnum):
    """The roles, as typer takes them."""

    owner = "owner"
    admin = "admin"
    member = "member"
    viewer = "viewer"


Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the user.")]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input.")
]


@app.command()
def add(
    name: Name,
    role: Annotated[RoleName, typer.Option(help="What they may do.")] = RoleName.member,
    unix_user: Annotated[
        str | None, typer.Option("--unix-user", help="The Unix user that their agents run as.")
    ] = None,
    password_stdin: PasswordStdin = False,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="Do not ask for a password.")
    ] = False,
) -> None:
    """Add a user. In a terminal it asks for a password."""

    async def work(client: Client, password: str | None, *, dry_run: bool = False) -> User:
        return await client.users.add(
            name, role=_role(role), unix_username=unix_user, password=password, dry_run=dry_run
        )

    password = None
    if password_stdin:
        password = read_secret()
    elif not no_password and sys.stdin.isatty():
        # Whatever else is wrong is said before somebody thinks up a password.
        ask(partial(work, password=None, dry_run=True))
        password = prompt_new_password(name)
    user = ask(partial(work, password=password))
    typer.echo(f"{user.name} is added ({user.role})")
    if password is None:
        remark(f"They have no password yet: agor user set-password {user.name}")


@app.command("list")
def list_all(
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON array.")] = False,
) -> None:
    """List all users."""

    async def everybody(client: Client) -> list[User]:
        return [user async for user in client.users.list()]

    users = ask(everybody)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(users)))
        return
    rows = [("name", "role", "unix user", "password", "state")]
    rows += [
        (
            printable(user.name),
            user.role,
            printable(user.unix_username or "-"),
            "yes" if user.has_password else "no",
            "enabled" if user.disabled_at is None else "disabled",
        )
        for user in users
    ]
    print_table(rows)


@app.command("set-role")
def set_role(
    name: Name, role: Annotated[RoleName, typer.Argument(help="What they may do now.")]
) -> None:
    """Give a user another role."""
    user = _change(name, role=_role(role))
    typer.echo(f"{user.name} is {user.role} now")


@app.command("set-unix-user")
def set_unix_user(
    name: Name,
    unix_user: Annotated[
        str, typer.Argument(help="The Unix user that their agents run as; none for nobody's.")
    ],
) -> None:
    """Say which Unix user a user's agents run as."""
    user = _change(name, unix_username=None if unix_user == "none" else unix_user)
    mapped = f"is {user.unix_username}" if user.unix_username else "has no Unix user"
    typer.echo(printable(f"{user.name} {mapped} on this machine now"))


@app.command("set-password")
def set_password(name: Name, password_stdin: PasswordStdin = False) -> None:
    """Give a user a password; wherever else they are signed in, they are signed out."""

    async def work(client: Client) -> User:
        user = await client.users.named(name)
        password = read_secret() if password_stdin else prompt_new_password(user.name)
        await client.users.set_password(user.user_id, password)
        return user

    typer.echo(f"{ask(work).name} has a new password")


@app.command()
def disable(name: Name) -> None:
    """Let a user in no more, at once: their tokens and sign-ins are refused."""
    typer.echo(f"{_change(name, disabled=True).name} is disabled")


@app.command()
def enable(name: Name) -> None:
    """Let a user in again. Their tokens are good again; they have to sign in anew."""
    typer.echo(f"{_change(name, disabled=False).name} is enabled")


def _change(name: str, **changes: Any) -> User:
    async def work(client: Client) -> User:
        user = await client.users.named(name)
        return await client.users.change(user.user_id, **changes)

    return ask(work)


def _role(role: RoleName) -> Role:
    return role.value
