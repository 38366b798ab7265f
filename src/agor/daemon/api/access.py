"""Who may come in, and from where.

A web page that a person visits can send requests to this machine's own ports. Three checks keep it
out: it has no token; a name that it pointed at this machine (DNS rebinding) is none of ours; and
its Origin is another than the one it talks to.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping

from agor.daemon.services.principal import Principal
from agor.errors import BadConfig, Forbidden, Unauthenticated
from agor.protocol.validation import quoted

_LOOPBACK = frozenset(("127.0.0.1", "[::1]", "localhost"))
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::[0-9]{1,5})?")
_BEARER = re.compile(rb"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)
#: Distinct Host headers that are remembered as good.
_MOST_KNOWN = 64


def check_host(host: str) -> None:
    """Refuse to listen where others than this machine could come in: that demands accounts."""
    if host.lower() == "localhost":
        return
    try:
        safe = ipaddress.ip_address(host).is_loopback
    except ValueError:
        safe = False
    if not safe:
        raise BadConfig(
            f"daemon.host: {quoted(host)} is not an address of this machine alone",
            hint="Use 127.0.0.1, ::1 or localhost. To reach the daemon from elsewhere, forward its "
            "port: ssh -L 3030:127.0.0.1:3030 HOST.",
        )


class Gate:
    """Checks where a request comes from, by its Host and Origin."""

    def __init__(self, host: str) -> None:
        own = host.lower()
        self._names = _LOOPBACK | {f"[{own}]" if ":" in own else own}
        self._known: set[bytes] = set()

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise `Forbidden` for what a stranger's page could have sent."""
        host = headers.get(b"host", b"")
        if host not in self._known:
            self._check_name(host)
            if len(self._known) < _MOST_KNOWN:
                self._known.add(host)
        origin = headers.get(b"origin")
        if origin is not None and origin.lower() != b"http://" + host.lower():
            raise Forbidden(
                f"the daemon does not answer pages of {quoted(origin.decode('latin-1'))}",
                hint="Only pages that the daemon serves itself may talk to it.",
            )

    def _check_name(self, host: bytes) -> None:
        shown = host.decode("latin-1")
        found = _HOST.fullmatch(shown.lower())
        if found is None or found["name"] not in self._names:
            raise Forbidden(
                f"Host is {quoted(shown)}, and this daemon is not called so",
                hint="Address it as 127.0.0.1, [::1] or localhost.",
            )


class Authenticator:
    """Knows who a token stands for. For now there is one person and one token."""

    def __init__(self, token: str, owner: Principal) -> None:
        self._owner = owner
        # Digests are of one length: comparing them tells nothing about the token.
        self._digest = hashlib.sha256(token.encode()).digest()

    def authenticate(self, token: str) -> Principal:
        """Tell who shows this token; raises `Unauthenticated`."""
        digest = hashlib.sha256(token.encode()).digest()
        if not hmac.compare_digest(digest, self._digest):
            raise Unauthenticated("this token is not known", hint=_WHERE)
        return self._owner


_WHERE = "Send the header Authorization: Bearer TOKEN, with the token in $AGOR_HOME/token."


def bearer_token(headers: Mapping[bytes, bytes]) -> str:
    """Take the token out of a request; raises `Unauthenticated`."""
    header = headers.get(b"authorization")
    if header is None:
        raise Unauthenticated("this needs a token", hint=_WHERE)
    found = _BEARER.fullmatch(header.strip())
    if found is None:
        raise Unauthenticated("the Authorization header holds no bearer token", hint=_WHERE)
    return found[1].decode()
