"""Permission requests: list, look at, decide."""

from __future__ import annotations

from agor.daemon.api.forms import PermissionsQuery
from agor.daemon.api.route import Request
from agor.protocol.api import Decision, Page, Permission


async def page(request: Request[PermissionsQuery]) -> Page[Permission]:
    """List permission requests."""
    asked = request.form
    return await request.services.permissions.page(
        request.who, asked.whose, asked.status, asked.cursor, asked.limit
    )


async def get(request: Request[None]) -> Permission:
    """Show a permission request."""
    return await request.services.permissions.get(request.who, request.id)


async def decide(request: Request[Decision]) -> Permission:
    """Answer a permission request."""
    return await request.services.permissions.decide(
        request.who, request.id, request.form, request.receipt
    )
