"""A copy of a database at one moment, whichever database it is, and what is found in it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from agor.daemon.services.audit.anchors import Anchor
from agor.daemon.services.audit.verification import verify_part
from agor.daemon.store import credentials
from agor.daemon.store.base import Reads


class Snapshot(NamedTuple):
    """What was found in a database."""

    #: The revision of its schema.
    schema: str
    #: PostgreSQL: the schema that its tables are in.
    namespace: str | None
    audit_number: int
    audit_hash: str
    #: How many credentials are sealed with each version of the master key.
    credentials: dict[int, int]
    #: What is wrong with its audit log, if anything is.
    audit_fault: str | None


async def look(
    database: Reads, schema: str, anchors: Sequence[Anchor], namespace: str | None = None
) -> Snapshot:
    """Verify the audit log of a database, with anchors that were read before it."""
    found = await verify_part(database, anchors, None, most=sys.maxsize)
    fault = None if found.fault is None else found.fault.what
    sealed = await credentials.counts(database)
    return Snapshot(schema, namespace, found.number, found.hash, sealed, fault)
