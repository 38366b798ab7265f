"""Where a request comes from: by its Host, its Origin and its address.

A web page that a person visits can send requests to this machine's own ports. A name that it
pointed at this machine (DNS rebinding) is none of ours, and its Origin is another than the one it
talks to.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agor.daemon.api.answers import Scope
from agor.errors import BadConfig, Forbidden
from agor.protocol.validation import quoted

_LOOPBACK = frozenset(("127.0.0.1", "[::1]", "localhost"))
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
#: Distinct Host headers that are remembered as good.
_MOST_KNOWN = 64
_LONGEST_ADDRESS = 64


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_host(host: str, *, can_sign_in: bool) -> None:
    """Refuse to listen where others than this machine could come in, unless there are accounts."""
    if is_loopback(host) or (can_sign_in and _is_address(host)):
        return
    if not _is_address(host):
        raise BadConfig(
            f"daemon.host: {quoted(host)} is not an address",
            hint="Use an address of this machine, such as 127.0.0.1, ::1 or 0.0.0.0.",
        )
    raise BadConfig(
        f"daemon.host: {quoted(host)} can be reached from other machines, and nobody here has a "
        "password",
        hint="Start it with --host 127.0.0.1, give somebody a password with `agor user "
        "set-password NAME` (or `agor user add NAME`), and then restart it. To reach it without "
        "that, forward its port (see `agor daemon url`): ssh -L 3030:127.0.0.1:PORT HOST.",
    )


class Gate:
    """Checks where a request comes from, by its Host and Origin."""

    def __init__(self, host: str, allowed: Sequence[str] = (), https_proxy: bool = False) -> None:
        own = _bracketed(host.lower())
        self._names = _LOOPBACK | {own} | {_bracketed(name.lower()) for name in allowed}
        #: Bound to every address, it is called by the one that a client has reached.
        self._anywhere = _is_address(host) and ipaddress.ip_address(host).is_unspecified
        if self._anywhere:
            self._names -= {own}
        self._https_proxy = https_proxy
        #: Host headers that are good → whether the browser behind it talks HTTPS.
        self._known: dict[bytes, bool] = {}

    def check(self, headers: Mapping[bytes, bytes], reached: Sequence[Any] | None = None) -> None:
        """Raise `Forbidden` for what a stranger's page could have sent.

        `reached` is the address and the port that the client has connected to.
        """
        host = headers.get(b"host", b"")
        if host not in self._known:
            name = self._check_name(host, reached)
            if len(self._known) < _MOST_KNOWN and name in self._names:
                self._known[host] = self._https_proxy and name not in _LOOPBACK
        origin = headers.get(b"origin")
        if origin is None:
            return
        scheme = b"https://" if self.is_https(headers) else b"http://"
        if origin.lower() != scheme + host.lower():
            raise Forbidden(
                f"the daemon does not answer pages of {quoted(origin.decode('latin-1'))}",
                hint="Only pages that the daemon serves itself may talk to it.",
            )

    def is_https(self, headers: Mapping[bytes, bytes]) -> bool:
        """Tell whether the browser talks HTTPS, to the proxy in front of us."""
        if not self._https_proxy:
            return False
        host = headers.get(b"host", b"")
        known = self._known.get(host)
        return _name_in(host) not in _LOOPBACK if known is None else known

    def _check_name(self, host: bytes, reached: Sequence[Any] | None) -> str:
        name = _name_in(host)
        if name in self._names and name:
            return name
        if self._anywhere and reached and name == _bracketed(_plain(str(reached[0]))):
            return name
        raise Forbidden(
            f"Host is {quoted(host.decode('latin-1'))}, and this daemon is not called so",
            hint="Address it as 127.0.0.1, [::1] or localhost, or add the name to "
            "daemon.allowed_hosts.",
        )


def address_of(scope: Scope, headers: Mapping[bytes, bytes], https_proxy: bool) -> str:
    """Tell where a request comes from; behind a proxy, what that says of it."""
    if https_proxy and (told := headers.get(b"x-forwarded-for")):
        # The last one was put there by the proxy itself; those before it, by anybody.
        return told.rpartition(b",")[2].strip().decode("latin-1")[:_LONGEST_ADDRESS]
    client = scope.get("client")
    return _plain(str(client[0])) if client else ""


def _name_in(host: bytes) -> str:
    found = _HOST.fullmatch(host.decode("latin-1").lower())
    return "" if found is None else found["name"]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _plain(address: str) -> str:
    """Spell an address of the older kind as such, also where it came through the newer one."""
    return address.removeprefix("::ffff:") if "." in address else address


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name
