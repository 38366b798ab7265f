"""People, as the daemon's HTTP interface takes and gives them. Pure data."""

from __future__ import annotations

from typing import Literal

from agor.protocol.api import Given, Sent

Role = Literal["owner", "admin", "member", "viewer"]
#: What a share lets its holder do: look, or prompt as well.
ShareAccess = Literal["view", "prompt"]
#: Whose sessions: one's own, those shared with one, or all that one may look at.
Whose = Literal["mine", "shared", "all"]


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
