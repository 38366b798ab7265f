"""Session tokens that were refused, for the audit log.

An executor that shows bad tokens is noted at once, and what it goes on to show is counted and noted
together, once in a while and at its end. So nobody can fill the log by asking.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from agor.daemon.services.audit.records import record
from agor.daemon.services.principal import Principal
from agor.daemon.services.records import StoreRecords
from agor.daemon.store.base import Store, Write
from agor.errors import StoreError

log = structlog.get_logger("agor.intake")


@dataclass(slots=True)
class _Refused:
    """What was refused to one executor, and is not noted yet."""

    who: Principal | None
    session_id: str | None
    why: str
    times: int = 0


class RefusedTokens:
    """Executors that have shown bad tokens. There are never more of them than executors."""

    def __init__(self, store: Store, executors: StoreRecords) -> None:
        self._store = store
        self._executors = executors
        self._refused: dict[str, _Refused] = {}
        self._work: set[asyncio.Task[None]] = set()

    def note(self, executor_id: str, why: str) -> None:
        """An executor has shown a token that it may not use."""
        refused = self._refused.get(executor_id)
        if refused is None:
            refused = _Refused(*self._executors.whose(executor_id), why)
            self._refused[executor_id] = refused
            self._begin(executor_id, refused)
        refused.why = why
        refused.times += 1

    def executor_ended(self, executor_id: str) -> None:
        """Note what is left of one that is gone."""
        refused = self._refused.pop(executor_id, None)
        if refused is not None:
            self._begin(executor_id, refused)

    async def flush(self) -> None:
        """Note what has come since the last time."""
        for executor_id, refused in list(self._refused.items()):
            await self._commit(executor_id, refused)

    async def settled(self) -> None:
        """Wait until nothing is under way."""
        while self._work:
            await asyncio.wait(self._work)

    def _begin(self, executor_id: str, refused: _Refused) -> None:
        task = asyncio.create_task(self._commit(executor_id, refused))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _commit(self, executor_id: str, refused: _Refused) -> None:
        times, refused.times = refused.times, 0
        if not times:
            return
        told = record(
            "session_token.refused",
            refused.who,
            session_id=refused.session_id,
            subject=executor_id,
            result="refused",
            why=refused.why,
            times=times,
        )
        try:
            await self._store.commit(Write(records=[told]))
        except StoreError as error:
            log.warning("refusal_not_noted", executor=executor_id, why=error.message)
            refused.times += times
