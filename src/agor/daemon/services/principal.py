"""Who asks: the person behind a request."""

from __future__ import annotations

from msgspec import Struct

from agor.protocol.people import Role


class Principal(Struct, frozen=True, kw_only=True):
    """A person who has shown who they are."""

    user_id: str
    name: str
    role: Role
    #: The token or the sign-in that they came by; none for the local token.
    via: str | None = None
