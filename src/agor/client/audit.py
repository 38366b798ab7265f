"""The audit log: what happened, and whether the log is still what it was."""

from __future__ import annotations

from collections.abc import AsyncIterator

from agor.client.calls import Calls
from agor.protocol.api import Page
from agor.protocol.audit import AuditEntry, AuditVerification


class AuditCalls:
    """The calls about the audit log; it takes an admin."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def entries(
        self,
        *,
        user: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
        action: str | None = None,
        after: int | None = None,
        before: int | None = None,
    ) -> AsyncIterator[AuditEntry]:
        """List what happened, the newest first; all that is given must hold.

        `action` is one action, or with a dot at its end all that begin so; times are milliseconds
        since 1970.
        """
        wanted = {
            "user": user, "user_id": user_id, "session_id": session_id, "action": action,
            "after": after, "before": before,
        }  # fmt: skip
        return self._calls.list("/audit", Page[AuditEntry], wanted)

    async def verify(self) -> AuditVerification:
        """Verify all of the log, part by part; a `fault` says what is wrong."""
        checked = anchors = 0
        cursor = None
        while True:
            part = await self._calls.ask(
                "GET", "/audit/verification", AuditVerification, query={"cursor": cursor}
            )
            checked, anchors = checked + part.checked, anchors + part.anchors
            cursor = part.next_cursor
            if cursor is None:
                part.checked, part.anchors = checked, anchors
                return part
