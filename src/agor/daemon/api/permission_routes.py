"""The routes of permission requests and rules."""

from __future__ import annotations

from agor.daemon.api import (
    permissions,
    rules,
)
from agor.daemon.api.forms import (
    PermissionsQuery,
    RuleExportQuery,
    RulesQuery,
)
from agor.daemon.api.route import Route
from agor.errors import (
    Conflict,
    NotFound,
    StoreUnavailable,
    Unprocessable,
)
from agor.protocol.api import (
    Decision,
    Page,
    Permission,
)
from agor.protocol.rules import NewRule, PermissionRule, RuleExport, RulePreview

PERMISSION_ROUTES: list[Route] = [
    # ── permissions ──────────────────────────────────────────────────────────────────────────
    Route(
        method="GET", path="/permissions", action="permission.list",
        handler=permissions.page,
        summary="List permission requests, the newest first",
        query=PermissionsQuery, result=Page[Permission], errors=(Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/permissions/{permission_id}", action="session.view",
        handler=permissions.get,
        summary="Show a permission request",
        result=Permission, errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="POST", path="/permissions/{permission_id}/decision", action="permission.decide",
        handler=permissions.decide,
        summary="Answer a permission request",
        details="The first answer counts; a second one is refused. With a `scope` other than "
        "`once` it makes a rule as well: without `rule`, for exactly this tool with exactly this "
        "input.",
        body=Decision, result=Permission,
        errors=(NotFound, Conflict, Unprocessable, StoreUnavailable),
    ),
    # ── permission rules ─────────────────────────────────────────────────────────────────────
    Route(
        method="GET", path="/permission-rules", action="rule.list",
        handler=rules.page,
        summary="List permission rules, the newest first",
        query=RulesQuery, result=Page[PermissionRule],
        errors=(Unprocessable, StoreUnavailable),
    ),
    Route(
        method="POST", path="/permission-rules", action="rule.make",
        handler=rules.make,
        summary="Make a permission rule",
        details="It holds at once, also for what is being asked already. Preview it first.",
        body=NewRule, result=PermissionRule, status=201,
        errors=(NotFound, Conflict, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="POST", path="/permission-rules/preview", action="rule.make",
        handler=rules.preview,
        summary="Show which past requests a rule would have decided; saves nothing",
        body=NewRule, result=RulePreview,
        errors=(NotFound, Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/permission-rules/export", action="rule.list",
        handler=rules.export,
        summary="Give all permission rules that hold, each as it can be sent again",
        query=RuleExportQuery, result=RuleExport,
        errors=(Unprocessable, StoreUnavailable),
    ),
    Route(
        method="GET", path="/permission-rules/{rule_id}", action="rule.list",
        handler=rules.get,
        summary="Show a permission rule, also one that holds no more",
        result=PermissionRule, errors=(NotFound, StoreUnavailable),
    ),
    Route(
        method="DELETE", path="/permission-rules/{rule_id}", action="rule.revoke",
        handler=rules.revoke,
        summary="Revoke a permission rule; it is kept, and decides nothing any more",
        status=204, errors=(NotFound, StoreUnavailable),
    ),
]  # fmt: skip
