"""How commands ask the daemon of this home, which is started if need be, and people for secrets."""

from __future__ import annotations

import getpass
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.text import Text

from agor.cli.printable import printable
from agor.errors import BadInput
from agor.home import Home
from agor.protocol.people import SHORTEST_PASSWORD

if TYPE_CHECKING:
    from agor.client import Client

T = TypeVar("T")

#: More than any password has.
_LONGEST_LINE = 8192


def ask(work: Callable[[Client], Awaitable[T]]) -> T:
    """Do something with a client of the daemon of this home, which is started if there is none."""
    # Imported late: it brings HTTP and WebSockets, and not every command asks.
    import asyncio

    from agor.client import Client

    home = Home.find()
    have_daemon(home)

    async def run() -> T:
        async with Client.local(home) as client:
            return await work(client)

    return asyncio.run(run())


def have_daemon(home: Home) -> None:
    """Start the daemon of a home unless it serves already."""
    running = home.running()
    if running is not None and running.description is not None:
        return
    # Imported late: most of the time there is one.
    from agor.cli import background
    from agor.config import load

    # Wrong settings are reported here, and not as the last words of a daemon.
    load(home.folder)
    with Console(stderr=True).status("starting the daemon"):
        description, is_new = background.start(home, [])
    if is_new:
        remark(f"The daemon was started: {description.url}. To end it: agor daemon stop")


async def at_most(count: int, items: AsyncIterator[T]) -> list[T]:
    """Take the first of a list that may be long."""
    found: list[T] = []
    async for item in items:
        found.append(item)
        if len(found) == count:
            break
    return found


def read_secret() -> str:
    """Read a secret from standard input: its first line."""
    line = sys.stdin.buffer.readline(_LONGEST_LINE).rstrip(b"\r\n")
    if not line:
        raise BadInput("there is nothing on standard input")
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise BadInput("what is on standard input is not UTF-8 text") from None


def prompt_new_password(whose: str) -> str:
    """Ask for a new password, twice, at the terminal."""
    first = prompt_secret(f"New password for {whose}: ")
    if len(first) < SHORTEST_PASSWORD:
        raise BadInput(f"a password has at least {SHORTEST_PASSWORD} characters", hint="Try again.")
    if prompt_secret("Again: ") != first:
        raise BadInput("these two are not the same", hint="Try again.")
    return first


def prompt_secret(question: str) -> str:
    """Ask for a secret at the terminal."""
    if not sys.stdin.isatty():
        raise BadInput(
            "there is no terminal to ask for a password at",
            hint="Give it on standard input, with --password-stdin.",
        )
    try:
        typed = getpass.getpass(question)
        typed.encode()
    except EOFError:
        raise BadInput("no password was typed") from None
    except UnicodeError:
        raise BadInput("what was typed is not UTF-8 text") from None
    return typed


def remark(text: str) -> None:
    """Say something beside the result, on standard error."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text(printable(text), "dim"))
