"""Access that has ended: tells those who hold something open for a person that they must let go.

Requests are checked one by one, so they need none of this; what lasts longer than a request does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from agor.daemon.services.principal import Principal


class Lost(NamedTuple):
    """What somebody may not do any more. What is none is not narrowed down."""

    #: Who lost it.
    user_id: str | None = None
    #: The session that they may not look at any more.
    session_id: str | None = None
    #: The token or sign-in that is worth nothing any more.
    via: str | None = None

    def concerns(self, who: Principal, session_id: str) -> bool:
        """Tell whether this ends what somebody holds open on a session."""
        return (
            self.user_id in (None, who.user_id)
            and self.session_id in (None, session_id)
            and self.via in (None, who.via)
        )


class Revocations:
    """Those who want to know."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Lost], None]] = []

    def listen(self, listener: Callable[[Lost], None]) -> None:
        """Be told from now on."""
        self._listeners.append(listener)

    def tell(self, lost: Lost) -> None:
        """Tell everybody, once it is durable."""
        for listener in self._listeners:
            listener(lost)
