"""The pool's records, kept in the store."""

from __future__ import annotations

from agor.daemon.pool.records import ExecutorRecord
from agor.daemon.store import executors
from agor.daemon.store.base import Store, Write


class StoreRecords:
    """What must be known of executors to take them back."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def save(self, record: ExecutorRecord) -> None:
        """Keep a record."""
        await self._store.commit(Write([executors.insert(record)]))

    async def remove(self, executor_id: str) -> None:
        """Forget one."""
        await self._store.commit(Write([executors.remove(executor_id)]))

    async def load(self) -> list[ExecutorRecord]:
        """List all that are kept."""
        return await executors.load(self._store)
