"""Shares of sessions, as the daemon's HTTP interface takes and gives them. Pure data."""

from __future__ import annotations

from agor.protocol.api import Given, Sent
from agor.protocol.people import ShareAccess


class NewShare(Sent):
    """What somebody shall be able to do in a session."""

    access: ShareAccess


class Share(Given):
    """A session that is shared with somebody."""

    session_id: str
    user_id: str
    name: str
    access: ShareAccess
    created_at: int
