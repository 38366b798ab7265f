"""Where the daemon is, and what opens it.

The daemon of this machine may be on another port after every start, and its old port may be
somebody else's by then. So it is looked up for every connection: its token is shown to nobody but
the process that serves this home now.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from msgspec import Struct

from agor.errors import BadInput, DaemonNotRunning, Unauthenticated
from agor.home import Home


class Address(Struct, frozen=True):
    """A daemon's URL, without a slash at its end, and the token."""

    url: str
    token: str

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
    return Address(running.description.url, token)
