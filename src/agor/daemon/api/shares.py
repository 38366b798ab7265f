"""Shares of a session: list, set, remove."""

from __future__ import annotations

from agor.daemon.api.route import Request
from agor.protocol.api import Page
from agor.protocol.shares import NewShare, Share


async def page(request: Request[None]) -> Page[Share]:
    """List whom a session is shared with."""
    return Page(items=await request.services.shares.all_of(request.who, request.id))


async def put(request: Request[NewShare]) -> Share:
    """Share a session with somebody."""
    session_id, user_id = request.ids
    return await request.services.shares.put(request.who, session_id, user_id, request.form)


async def remove(request: Request[None]) -> None:
    """Share a session with somebody no more."""
    session_id, user_id = request.ids
    await request.services.shares.remove(request.who, session_id, user_id)
