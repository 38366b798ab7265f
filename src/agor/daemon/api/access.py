"""Who asks: a token or a cookie, and whom it stands for. From memory, without the database.

A cookie is sent by the browser whatever page has it ask. So where it changes something, the
request has to show that it comes from a page of ours, which no other page can have it show.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping

from agor.daemon.api import cookies
from agor.daemon.api.route import WEBSOCKET
from agor.daemon.services.people.api_tokens import ApiTokens, hash_of
from agor.daemon.services.people.people import People, principal
from agor.daemon.services.people.refusals import Refusals
from agor.daemon.services.people.sign_ins import SignIns
from agor.daemon.services.principal import Principal
from agor.errors import Forbidden, Unauthenticated

_BEARER = re.compile(rb"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)
_READS = frozenset(("GET", "HEAD"))
_WHERE = (
    "Send the header Authorization: Bearer TOKEN, with the token in $AGOR_HOME/token or one of "
    "`agor token create`."
)


class Authenticator:
    """Knows whom a token or a cookie stands for."""

    def __init__(
        self,
        local_token: str,
        people: People,
        tokens: ApiTokens,
        sign_ins: SignIns,
        refusals: Refusals,
    ) -> None:
        # Digests are of one length: comparing them tells nothing about the token.
        self._local = hash_of(local_token)
        self._people = people
        self._tokens = tokens
        self._sign_ins = sign_ins
        self._refusals = refusals

    def authenticate(
        self, method: str, headers: Mapping[bytes, bytes], address: str, https: bool
    ) -> Principal:
        """Tell who asks; raises `Unauthenticated`, or `Forbidden` for a page of another."""
        if b"authorization" in headers:
            return self._by_token(bearer_token(headers), address)
        secret = cookies.read(headers, https)
        if secret is None:
            raise Unauthenticated("this needs a token, or to be signed in", hint=_WHERE)
        who = self._by_cookie(secret, address)
        check_page(method, headers)
        return who

    def _by_token(self, token: str, address: str) -> Principal:
        digest = hash_of(token)
        if hmac.compare_digest(digest, self._local):
            user_id, via = self._people.home_owner, None
        elif (row := self._tokens.find(digest)) is not None:
            user_id, via = row.user_id, row.token_id
        else:
            raise self._refused(address, None, "not known")
        user = self._people.enabled(user_id)
        if user is None:
            raise self._refused(address, via or user_id, "disabled")
        return principal(user, via)

    def _by_cookie(self, secret: str, address: str) -> Principal:
        row = self._sign_ins.find(hash_of(secret))
        user = None if row is None else self._people.enabled(row.user_id)
        if row is None or user is None:
            self._refused(address, None, "this sign-in has ended")
            raise Unauthenticated("this sign-in has ended", hint="Sign in again.")
        return principal(user, row.sign_in_id)

    def _refused(self, address: str, subject: str | None, why: str) -> Unauthenticated:
        self._refusals.note("token.refused", address, subject, why)
        return Unauthenticated("this token is not known, was revoked, or has expired", hint=_WHERE)


def check_page(method: str, headers: Mapping[bytes, bytes]) -> None:
    """Refuse what another page could have a browser send, with the cookie it has for us.

    An Origin that is there is known to be ours: the gate has looked.
    """
    if method in _READS or b"origin" in headers:
        return
    if method != WEBSOCKET and headers.get(b"sec-fetch-site") == b"same-origin":
        return
    raise Forbidden(
        "this request does not show that it comes from a page of the daemon",
        hint="Browsers send Origin by themselves. Programs use a token: agor token create NAME",
    )


def bearer_token(headers: Mapping[bytes, bytes]) -> str:
    """Take the token out of a request; raises `Unauthenticated`."""
    header = headers.get(b"authorization")
    if header is None:
        raise Unauthenticated("this needs a token", hint=_WHERE)
    found = _BEARER.fullmatch(header.strip())
    if found is None:
        raise Unauthenticated("the Authorization header holds no bearer token", hint=_WHERE)
    return found[1].decode()
