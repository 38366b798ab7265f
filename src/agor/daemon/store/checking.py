"""Going along the chain of the audit log, and saying what is wrong where it breaks. Pure.

A fault is named by what most likely happened. That is told from the records around it: a record
that fits where another one stands now was moved, or something was put in before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agor.daemon.store.chain import Link, hash_of
from agor.daemon.store.rows import AuditRow
from agor.protocol.audit import FaultKind

#: So many records behind a fault are looked at, to name it.
LOOK_AHEAD = 500


class Fault(NamedTuple):
    """The first thing that is wrong."""

    number: int
    kind: FaultKind
    #: What is wrong, in a sentence.
    what: str


def follow(link: Link, rows: Sequence[AuditRow]) -> int:
    """Go along from a link, and tell how many records are right."""
    for place, row in enumerate(rows):
        if not _fits(link, row):
            return place
        link = Link(row.number, row.hash)
    return len(rows)


def name_fault(link: Link, rows: Sequence[AuditRow]) -> Fault:
    """Say what is wrong with the first of these rows, which does not follow from the link."""
    row, number = rows[0], link.number + 1
    if row.number != number:
        gap = row.number - number
        which = f"record {number} is" if gap == 1 else f"records {number} to {row.number - 1} are"
        return Fault(number, "missing", f"{which} missing: the next one is {row.number}")
    for distance, other in enumerate(rows[1:], 1):
        if not _fits(link, other, number):
            continue
        before = rows[distance - 1].hash if distance > 1 else other.hash
        if _hash(before, other.number, row) == row.hash:
            what = f"records {number} and {other.number} have changed places"
            return Fault(number, "reordered", what)
        which = f"record {number} was" if distance == 1 else f"{distance} records were"
        what = f"{which} put in before what is record {other.number} now"
        return Fault(number, "inserted", what)
    return _changed(link, rows)


def _changed(link: Link, rows: Sequence[AuditRow]) -> Fault:
    row, number = rows[0], link.number + 1
    following = rows[1] if len(rows) > 1 else None
    if following is not None:
        here = _hash(link.hash, number, row)
        if here is not None and _fits(Link(number, here), following):
            return Fault(number, "changed", f"the hash of record {number} was changed")
        for shift in range(1, LOOK_AHEAD):
            # It fits its neighbour, if both had other numbers once.
            once = f"record {number} was number"
            if _hash(row.hash, following.number + shift, following) == following.hash:
                what = f"{once} {number + shift} once: {shift} before it were taken out"
                return Fault(number, "missing", what)
            if _hash(row.hash, following.number - shift, following) == following.hash:
                what = f"{once} {number - shift} once: {shift} before it were put in"
                return Fault(number, "inserted", what)
    return Fault(number, "changed", f"record {number} is not what it was when it was written")


def _fits(link: Link, row: AuditRow, number: int | None = None) -> bool:
    """Tell whether a row follows from the link: where it is, or if it had this number."""
    if number is None:
        number = row.number
    return number == link.number + 1 and _hash(link.hash, number, row) == row.hash


def _hash(before: bytes, number: int, row: AuditRow) -> bytes | None:
    """Tell the hash that a row should have; none if it can have none any more."""
    try:
        return hash_of(before, number, row)
    except (TypeError, ValueError):
        return None
