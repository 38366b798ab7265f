"""The pool's records, kept in the store; and what becomes of executors, in the audit log.

A record and what the log says of it are committed together: whoever is in the log as started and
not as ended runs, or is ended and noted by the daemon after us.
"""

from __future__ import annotations

from agor.daemon.pool.ending import Ending
from agor.daemon.pool.records import ExecutorRecord
from agor.daemon.services.audit.records import record as record_of
from agor.daemon.services.people.people import People, principal
from agor.daemon.services.principal import Principal
from agor.daemon.store import executors
from agor.daemon.store.base import Store, Write
from agor.errors import NotFound, StoreError


class StoreRecords:
    """What must be known of executors to take them back."""

    def __init__(self, store: Store, people: People) -> None:
        self._store = store
        self._people = people
        #: Those that are in the log as started.
        self._known: dict[str, ExecutorRecord] = {}

    async def save(self, record: ExecutorRecord) -> None:
        """Keep a record."""
        started = record_of(
            "executor.started",
            self._person(record.user_id),
            session_id=record.session_id,
            subject=record.executor_id,
            unix_user=record.unix_user,
            pid=record.family.executor.pid,
        )
        # Before: a commit goes on when its caller is cancelled, and its end is to be noted then.
        self._known[record.executor_id] = record
        try:
            await self._store.commit(Write([executors.insert(record)], records=[started]))
        except StoreError:
            del self._known[record.executor_id]
            raise

    async def ended(self, ending: Ending) -> None:
        """Forget one of which nothing is left."""
        gone = ending.survivors == 0
        statements = [executors.remove(ending.executor_id)] if gone else []
        known = self._known.get(ending.executor_id)
        if known is None:
            await self._store.commit(Write(statements))
            return
        ended = record_of(
            "executor.ended",
            self._person(known.user_id),
            session_id=known.session_id,
            subject=known.executor_id,
            result="ok" if gone else "failed",
            unix_user=known.unix_user,
            pid=known.family.executor.pid,
            how=ending.in_words,
            exit_code=ending.exit_code,
            signal=ending.signal,
            left_behind=ending.left_behind,
            survivors=ending.survivors,
        )
        await self._store.commit(Write(statements, records=[ended]))
        self._known.pop(ending.executor_id, None)

    async def load(self) -> list[ExecutorRecord]:
        """List all that are kept."""
        found = await executors.load(self._store)
        self._known = {each.executor_id: each for each in found}
        return found

    def whose(self, executor_id: str) -> tuple[Principal | None, str | None]:
        """Tell for whom an executor runs, and in which session, as far as it is known."""
        known = self._known.get(executor_id)
        if known is None:
            return None, None
        return self._person(known.user_id), known.session_id

    def _person(self, user_id: str) -> Principal | None:
        try:
            return principal(self._people.get(user_id))
        except NotFound:
            return None
