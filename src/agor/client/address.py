"""Where the daemon is, and what opens it.

The daemon of this machine may be on another port after every start, and its old port may be
somebody else's by then. So it is looked up for every connection, before and after: a daemon that
still holds the lock of its home when the connection is there has listened on that port all the
time, and so it is the other end. Only then the token is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from agor.errors import AgorError, BadInput, DaemonNotRunning, Unauthenticated
from agor.home import Home
from agor.protocol.launching import Process


class Address(Struct, frozen=True):
    """A daemon's URL, without a slash at its end, and the token."""

    url: str
    token: str
    #: The process that serves the home; None for an address that somebody gave.
    daemon: Process | None = None

    def __repr__(self) -> str:
        return f"Address({self.url!r})"

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def websocket_url(self) -> str:
        """The same place, for WebSockets: http → ws, https → wss."""
        return f"ws{self.url.removeprefix('http')}"


#: Tells the address as it is now; raises `DaemonNotRunning`.
Find = Callable[[], Address]


def fixed(url: str, token: str) -> Address:
    """Take what somebody typed. What is wrong with it is said without repeating the token."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        port = parts.port
    except ValueError:
        usable = False
    if not usable or parts.username or parts.password or parts.query or parts.fragment:
        raise BadInput(
            "this is not the URL of a daemon", hint="It looks like this: http://127.0.0.1:3030"
        )
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise BadInput("this is no token", hint="The daemon's is in $AGOR_HOME/token.")
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    place = host if port is None else f"{host}:{port}"
    return Address(f"{parts.scheme}://{place}{parts.path.rstrip('/')}", token)


def of_home(home: Home) -> Address:
    """Find the daemon that serves a home now."""
    running = home.running()
    if running is None:
        raise DaemonNotRunning(
            f"no daemon serves {home.folder}", hint="Start it with: agor daemon start"
        )
    home.refuse_while_restoring(running)
    if running.description is None:
        state = "is ending" if running.ending else "is still starting"
        raise DaemonNotRunning(
            f"the daemon of {home.folder} {state}", hint="Try again in a moment."
        )
    token = home.read_token()
    if token is None:
        raise Unauthenticated(
            f"{home.token_file} is gone", hint="A new one is made by: agor daemon restart"
        )
    return Address(running.description.url, token, running.process)


def checking_connections(address: Address, find: Find) -> dict[str, Any]:
    """Make the extensions of a request of httpx that check a new connection before it is used."""

    async def trace(event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            try:
                check_unchanged(address, find)
            except AgorError:
                await info["return_value"].aclose()
                raise

    return {"trace": trace}


def check_unchanged(address: Address, find: Find) -> None:
    """Raise `DaemonNotRunning` if a new connection may lead to another program than the daemon."""
    if address.daemon is not None and find() != address:
        raise DaemonNotRunning(
            f"the daemon at {address.url} has ended", hint="Start it with: agor daemon start"
        )
