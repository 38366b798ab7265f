"""The chain of the audit log: each record's hash covers the one before. Pure.

The hash of a record is SHA-256 over a mark of this use and version, the hash before it, and all of
its row, its number included. The row is spelled so that no two rows are spelled alike: numbers in
eight bytes, texts and bytes behind their length, and a text that is absent is not an empty one.

A change of the spelling is a new version with a mark of its own, and must leave old records valid.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from agor.daemon.store.rows import AuditRecord, AuditRow

_MARK = b"agor audit log, version 1: record\n"

_number = struct.Struct(">q").pack
_length = struct.Struct(">BQ").pack
_ABSENT = b"\0"


class Link(NamedTuple):
    """A place in the chain: the number of a record, and its hash."""

    number: int
    hash: bytes


#: Where the first record is linked to.
GENESIS = Link(0, hashlib.sha256(b"agor audit log, version 1: beginning\n").digest())


def chained(after: Link, records: Iterable[AuditRecord]) -> list[AuditRow]:
    """Number records and link them to what is there, in their order."""
    rows = []
    number, before = after
    for record in records:
        number += 1
        before = hash_of(before, number, record)
        rows.append(AuditRow(**msgspec.structs.asdict(record), number=number, hash=before))
    return rows


def hash_of(before: bytes, number: int, record: AuditRecord) -> bytes:
    """Tell the hash of a record at its place; raises `TypeError` or `ValueError` if it has none."""
    return hashlib.sha256(_MARK + before + spelled(number, record)).digest()


def spelled(number: int, record: AuditRecord) -> bytes:
    """Spell a record and its number, in the one way there is."""
    try:
        parts = [_number(number), _number(record.at)]
    except struct.error as error:
        raise ValueError(f"a number of an audit record does not fit: {error}") from error
    for text in (
        record.actor_id, record.actor, record.action, record.session_id, record.subject,
        record.result,
    ):  # fmt: skip
        if text is None:
            parts.append(_ABSENT)
        elif isinstance(text, str):
            parts.append(_behind_length(text.encode()))
        else:
            raise TypeError(f"an audit record has {type(text).__name__} where text belongs")
    if not isinstance(record.detail, bytes):
        raise TypeError(f"an audit record has {type(record.detail).__name__} where bytes belong")
    parts.append(_behind_length(record.detail))
    return b"".join(parts)


def _behind_length(value: bytes) -> bytes:
    return _length(1, len(value)) + value
