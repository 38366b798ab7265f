"""API tokens: make, list, revoke."""

from __future__ import annotations

from agor.daemon.api.forms import TokensQuery
from agor.daemon.api.route import Request
from agor.protocol.api import Page
from agor.protocol.people import ApiToken, MadeToken, NewToken


async def make(request: Request[NewToken]) -> MadeToken:
    """Make a token for whoever asks."""
    return await request.services.api_tokens.make(request.who, request.form)


async def page(request: Request[TokensQuery]) -> Page[ApiToken]:
    """List the tokens of somebody."""
    asked = request.form
    return request.services.api_tokens.page(request.who, asked.user_id, asked.cursor, asked.limit)


async def revoke(request: Request[None]) -> None:
    """End a token."""
    await request.services.api_tokens.revoke(request.who, request.id)
