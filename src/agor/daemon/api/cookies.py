"""The cookie of a sign-in: how it is called, read, given and taken away.

Browsers do not tell ports apart in cookies, so its name has the port: two daemons on one machine
must not sign each other's people out. Over HTTPS its name begins with `__Host-`, which keeps the
pages of neighbouring names from setting it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PORT = re.compile(rb":([0-9]{1,5})$")
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
Header = tuple[bytes, bytes]


def read(headers: Mapping[bytes, bytes], https: bool) -> str | None:
    """Take the secret out of a request; None if it has none."""
    header = headers.get(b"cookie")
    if header is None:
        return None
    name = _name(headers, https)
    for part in header.decode("latin-1").split(";"):
        found, _, value = part.strip().partition("=")
        if found == name:
            return value if _SECRET.fullmatch(value) else None
    return None


def give(headers: Mapping[bytes, bytes], https: bool, secret: str, seconds: int) -> Header:
    """Make the header that gives a browser its cookie."""
    return _header(_name(headers, https), secret, seconds, https)


def take_away(headers: Mapping[bytes, bytes], https: bool) -> Header:
    """Make the header that has a browser forget its cookie."""
    return _header(_name(headers, https), "", 0, https)


def _header(name: str, value: str, seconds: int, https: bool) -> Header:
    secure = "; Secure" if https else ""
    text = f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    return b"set-cookie", text.encode()


def _name(headers: Mapping[bytes, bytes], https: bool) -> str:
    port = _PORT.search(headers.get(b"host", b""))
    name = "agor" if port is None else f"agor_{port[1].decode()}"
    return f"__Host-{name}" if https else name
