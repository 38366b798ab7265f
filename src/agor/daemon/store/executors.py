"""Executors that run, as they are stored: what a daemon needs to take them back."""

from __future__ import annotations

import msgspec

from agor.daemon.pool.records import ExecutorRecord
from agor.daemon.store import mapping
from agor.daemon.store.base import Statement, Store
from agor.protocol.launching import Family

_INSERT = mapping.insert("executors", ExecutorRecord, "executor_id")
_SELECT = f"SELECT {mapping.columns(ExecutorRecord)} FROM executors"  # noqa: S608 - names of ours

_read = mapping.reader(ExecutorRecord)
_family = msgspec.json.Decoder(Family)


def insert(record: ExecutorRecord) -> Statement:
    """Keep the record of an executor that has started."""
    *plain, family = mapping.values(record)
    return Statement(_INSERT, (*plain, msgspec.json.encode(family)))


def remove(executor_id: str) -> Statement:
    """Forget an executor; it may be forgotten already."""
    return Statement("DELETE FROM executors WHERE executor_id = ?", (executor_id,))


async def load(store: Store) -> list[ExecutorRecord]:
    """List the records of all executors, in the order they started."""
    found = await store.read(f"{_SELECT} ORDER BY started_at, executor_id")
    return [_read((*plain, _family.decode(family))) for *plain, family in found]
