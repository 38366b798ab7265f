"""Users: add, list, look at, change, give a password."""

from __future__ import annotations

from agor.daemon.api.forms import PageQuery
from agor.daemon.api.route import Request
from agor.protocol.api import Page
from agor.protocol.people import NewPassword, NewUser, User, UserChange


async def add(request: Request[NewUser]) -> User:
    """Add somebody."""
    return await request.services.accounts.add(
        request.who, request.form, dry_run=request.query.dry_run
    )


async def page(request: Request[PageQuery]) -> Page[User]:
    """List everybody."""
    asked = request.form
    return request.services.accounts.page(request.who, asked.cursor, asked.limit)


async def get(request: Request[None]) -> User:
    """Show somebody."""
    return request.services.accounts.get(request.who, request.id)


async def change(request: Request[UserChange]) -> User:
    """Change somebody."""
    return await request.services.accounts.change(request.who, request.id, request.form)


async def set_password(request: Request[NewPassword]) -> None:
    """Give somebody a password."""
    await request.services.accounts.set_password(
        request.who, request.id, request.form, request.address
    )
