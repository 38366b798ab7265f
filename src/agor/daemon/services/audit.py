"""The audit log: who did what to what, when, and what came of it.

A record is committed in the same transaction as what it tells of: put it into the `Write`, or into
the `Entry` of a session's line. It never holds a secret.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import now
from agor.daemon.store.rows import AuditRecord

AuditResult = Literal["ok", "refused", "failed"]

#: The actor of what nobody asked for.
DAEMON = "daemon"
#: The actor of what somebody did who has not shown who they are.
STRANGER = "stranger"


def record(
    action: str,
    who: Principal | None = None,
    *,
    actor: str = DAEMON,
    session_id: str | None = None,
    subject: str | None = None,
    result: AuditResult = "ok",
    **detail: Any,
) -> AuditRecord:
    """Write down what somebody did; without a person, `actor` names what did it."""
    return AuditRecord(
        at=now(),
        actor_id=None if who is None else who.user_id,
        actor=actor if who is None else who.name,
        action=action,
        session_id=session_id,
        subject=subject,
        result=result,
        detail=msgspec.json.encode(detail, order="sorted"),
    )
