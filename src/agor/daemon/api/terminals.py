"""Terminals: open, list, look at, close."""

from __future__ import annotations

from agor.daemon.api.route import Request
from agor.protocol.api import Page
from agor.protocol.terminal_api import NewTerminal, Terminal


async def open_one(request: Request[NewTerminal]) -> Terminal:
    """Open a shell in a session's workspace."""
    return await request.services.openings.open(
        request.who, request.id, request.form, request.receipt
    )


async def page(request: Request[None]) -> Page[Terminal]:
    """List a session's terminals. There are never so many that it takes a second page."""
    return await request.services.terminals.of_session(request.who, request.id)


async def open_ones(request: Request[None]) -> Page[Terminal]:
    """List one's own open terminals; there are no more than executors."""
    return request.services.terminals.open_of(request.who)


async def get(request: Request[None]) -> Terminal:
    """Show a terminal."""
    return await request.services.terminals.get(request.who, request.id)


async def close(request: Request[None]) -> None:
    """Close a terminal with all that runs in it."""
    await request.services.terminals.close(request.who, request.id)
