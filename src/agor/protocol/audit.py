"""The audit log, as the daemon's HTTP interface gives it. Pure data."""

from __future__ import annotations

from typing import Any, Literal

from agor.protocol.api import Given

#: What is wrong with a record. `anchor`: the chain is right, but not the one that was there when
#: the anchor was written.
FaultKind = Literal["changed", "missing", "inserted", "reordered", "anchor"]


class AuditEntry(Given):
    """Something that happened and matters."""

    number: int
    at: int
    #: Who did it; null if it was the daemon itself, or a stranger.
    user_id: str | None
    #: Their name at that time, or `daemon` or `stranger`.
    actor: str
    action: str
    session_id: str | None
    #: What it was done to.
    subject: str | None
    #: `ok`, `refused` or `failed`.
    result: str
    detail: dict[str, Any]
    #: In hexadecimal: over the record and the hash before it.
    hash: str


class AuditFault(Given):
    """The first record that is not as it should be."""

    number: int
    kind: FaultKind
    #: What is wrong, in a sentence.
    what: str


class AuditVerification(Given):
    """What was found in a part of the audit log, from its beginning or from a cursor on."""

    #: Records of this part that are as they should be.
    checked: int
    #: The last of them, or of the part before if there is none; 0 for none at all.
    number: int
    hash: str
    #: Anchors that lie in this part and fit.
    anchors: int
    fault: AuditFault | None
    #: Asks for the next part; null at the end, or at a fault.
    next_cursor: str | None
