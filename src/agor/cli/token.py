"""`agor token`: how a person's programs come in.

A new token is printed once, alone on standard output, so that it can be piped to where it is kept.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
import typer

from agor.cli.asking import ask, have_daemon, prompt_secret, read_secret, remark
from agor.cli.printable import printable
from agor.cli.tables import print_table
from agor.cli.user import PasswordStdin
from agor.client import Client
from agor.client.address import Find, fixed, of_home
from agor.client.signing_in import check_reachable, make_token
from agor.daemon.api.gate import is_loopback
from agor.errors import BadInput
from agor.home import Home
from agor.protocol.people import ApiToken, MadeToken, NewToken
from agor.protocol.validation import name_the_field

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Make tokens for programs, and revoke them."
)

_SPAN = re.compile(r"([0-9]{1,5})([hd])")
_MILLISECONDS = {"h": 3600_000, "d": 24 * 3600_000}


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    expires_in: Annotated[
        str, typer.Option(help="How long it is good: 12h, 30d, or never (default: 90d).")
    ] = "90d",
    user: Annotated[
        str | None,
        typer.Option(help="Make it as this user, with their password, instead of as the owner."),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="With --user: the daemon's address, if it is elsewhere.")
    ] = None,
    password_stdin: PasswordStdin = False,
) -> None:
    """Make a token, and print it: once, and nothing else on standard output."""
    expires_at = _expiry(expires_in)
    if user is None:
        if url is not None or password_stdin:
            raise BadInput("--url and --password-stdin go with --user", hint="Add --user NAME.")
        made = ask(lambda client: client.tokens.make(name, expires_at=expires_at))
    else:
        made = _made_as(user, url, password_stdin, NewToken(name=name, expires_at=expires_at))
    typer.echo(made.token)
    until = "never expires" if made.expires_at is None else f"expires {_date(made.expires_at)}"
    remark(f"This is the only time it is shown. It {until}. Its id: {made.token_id}")


@app.command("list")
def list_all(
    user: Annotated[str | None, typer.Option(help="Whose, if not the owner's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON array.")] = False,
) -> None:
    """List the tokens that are good."""

    async def found(client: Client) -> list[ApiToken]:
        whose = None if user is None else (await client.users.named(user)).user_id
        return [token async for token in client.tokens.list(user_id=whose)]

    tokens = ask(found)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(tokens)))
        return
    rows = [("id", "name", "expires", "last used")]
    rows += [
        (
            token.token_id,
            printable(token.name),
            _date(token.expires_at) or "never",
            _date(token.last_used_at) or "-",
        )
        for token in tokens
    ]
    print_table(rows)


@app.command()
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As `agor token list` has it.")],
) -> None:
    """End a token, at once."""
    ask(lambda client: client.tokens.revoke(token_id))
    typer.echo(f"{token_id} is revoked")


def _made_as(user: str, url: str | None, password_stdin: bool, new: NewToken) -> MadeToken:
    """Make a token for somebody who shows who they are with their password."""
    find = _daemon_of_home() if url is None else _daemon_at(url)
    place = urlsplit(find().url)
    _check(new)
    asyncio.run(check_reachable(find))
    if place.scheme == "http" and not is_loopback(place.hostname or ""):
        remark("Without https, the password goes over the network in clear.")
    password = read_secret() if password_stdin else prompt_secret(f"Password of {user}: ")
    return asyncio.run(make_token(find, user, password, new))


def _daemon_of_home() -> Find:
    home = Home.find()
    have_daemon(home)
    return lambda: of_home(home)


def _daemon_at(url: str) -> Find:
    address = fixed(url, "none")
    return lambda: address


def _check(new: NewToken) -> None:
    try:
        msgspec.convert(msgspec.to_builtins(new), NewToken)
    except msgspec.ValidationError as error:
        raise BadInput(name_the_field(error, "token")) from None


def _expiry(text: str) -> int | None:
    if text == "never":
        return None
    found = _SPAN.fullmatch(text)
    if found is None or not int(found[1]):
        raise BadInput(
            f"--expires-in: {text[:40]!r} is no time", hint="It looks like this: 12h, 30d, never."
        )
    return time.time_ns() // 1_000_000 + int(found[1]) * _MILLISECONDS[found[2]]


def _date(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))
