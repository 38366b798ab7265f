"""Whom sessions are shared with: `client.shares`."""

from __future__ import annotations

from agor.client.calls import Calls
from agor.client.ids import in_path
from agor.protocol.api import Page
from agor.protocol.people import ShareAccess
from agor.protocol.shares import NewShare, Share


class Shares:
    """The shares of sessions; their owners and admins change them."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def list(self, session_id: str) -> list[Share]:
        """Tell whom a session is shared with."""
        path = f"/sessions/{in_path(session_id)}/shares"
        return (await self._calls.ask("GET", path, Page[Share])).items

    async def put(self, session_id: str, user_id: str, access: ShareAccess) -> Share:
        """Share a session with somebody: to look, or to prompt as well."""
        path = f"/sessions/{in_path(session_id)}/shares/{in_path(user_id)}"
        return await self._calls.ask("PUT", path, Share, body=NewShare(access=access))

    async def remove(self, session_id: str, user_id: str) -> None:
        """Share it with them no more, at once."""
        path = f"/sessions/{in_path(session_id)}/shares/{in_path(user_id)}"
        await self._calls.ask("DELETE", path, None)
