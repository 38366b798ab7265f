"""Permission rules: list, make, try out, revoke, export."""

from __future__ import annotations

from agor.daemon.api.forms import RuleExportQuery, RulesQuery
from agor.daemon.api.route import Request
from agor.protocol.api import Page
from agor.protocol.rules import NewRule, PermissionRule, RuleExport, RulePreview


async def page(request: Request[RulesQuery]) -> Page[PermissionRule]:
    """List permission rules."""
    asked = request.form
    return await request.services.rules.page(
        request.who, asked.user_id, asked.cursor, asked.limit, only_live=asked.status == "live"
    )


async def make(request: Request[NewRule]) -> PermissionRule:
    """Make a permission rule."""
    return await request.services.rules.make(request.who, request.form, request.receipt)


async def preview(request: Request[NewRule]) -> RulePreview:
    """Show what a permission rule would have decided."""
    return await request.services.rules.preview(request.who, request.form)


async def export(request: Request[RuleExportQuery]) -> RuleExport:
    """Give all permission rules that hold."""
    return await request.services.rules.export(request.who, request.form.user_id)


async def get(request: Request[None]) -> PermissionRule:
    """Show a permission rule."""
    return await request.services.rules.get(request.who, request.id)


async def revoke(request: Request[None]) -> None:
    """Revoke a permission rule."""
    await request.services.rules.revoke(request.who, request.id)
