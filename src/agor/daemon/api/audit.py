"""The audit log: list, verify."""

from __future__ import annotations

from agor.daemon.api.forms import AuditQuery, VerificationQuery
from agor.daemon.api.route import Request
from agor.daemon.services.audit.log import Wanted
from agor.protocol.api import Page
from agor.protocol.audit import AuditEntry, AuditVerification


async def page(request: Request[AuditQuery]) -> Page[AuditEntry]:
    """List records."""
    asked = request.form
    wanted = Wanted(
        user_id=asked.user_id, user=asked.user, session_id=asked.session_id, action=asked.action,
        after=asked.after, before=asked.before,
    )  # fmt: skip
    return await request.services.audit.page(request.who, wanted, asked.cursor, asked.limit)


async def verify(request: Request[VerificationQuery]) -> AuditVerification:
    """Verify a part of the log."""
    return await request.services.audit.verify(request.who, request.form.cursor)
