"""Who asks: the person behind a request."""

from __future__ import annotations

from msgspec import Struct


class Principal(Struct, frozen=True, kw_only=True):
    """A person who has shown who they are."""

    user_id: str
    name: str
    role: str
