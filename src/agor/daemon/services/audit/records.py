"""The audit log: who did what to what, when, and what came of it.

A record is committed in the same transaction as what it tells of: put it into the `Write`, or into
the `Entry` of a session's line. It never holds a secret, and it is never long: some of its words
are a stranger's.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from agor.daemon.services.principal import Principal
from agor.daemon.services.stamps import now
from agor.daemon.store.rows import AuditRecord

AuditResult = Literal["ok", "refused", "failed"]

#: Characters of each of its texts, and of a list or an object in its detail.
_LONGEST = 500
#: What neither database nor hash can take as text.
_ODD = re.compile("[\x00\ud800-\udfff]")

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
        actor=_clean(actor if who is None else who.name),
        action=action,
        session_id=None if session_id is None else _clean(session_id),
        subject=None if subject is None else _clean(subject),
        result=result,
        detail=msgspec.json.encode(
            {name: _shortened(value) for name, value in detail.items()}, order="sorted"
        ),
    )


def _clean(text: str) -> str:
    """Take out of a text what cannot be stored, and cut it to its bound."""
    if len(text) <= _LONGEST and text.isprintable():
        return text  # Nearly every one.
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}…"
    return _ODD.sub("\N{REPLACEMENT CHARACTER}", text)


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, list | tuple | dict):
        text = msgspec.json.encode(value).decode()
        return value if len(text) <= _LONGEST else _clean(text)
    return value
