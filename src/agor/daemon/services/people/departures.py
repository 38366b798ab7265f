"""People who go, or are not who they were: what they have under way ends with that.

Somebody who is disabled has no feeds, no tasks and no executors any more; somebody who is another
Unix user now must not go on in executors of the old one. The change is stored first, so a daemon
that ends in between goes on with this when it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from agor.daemon.services.executors import Executors
from agor.daemon.services.people.people import People
from agor.daemon.services.people.revocations import Lost, Revocations
from agor.daemon.services.task_stops import TaskStops
from agor.daemon.store.rows import UserRow
from agor.environments.identity import UnixIdentity
from agor.errors import AgorError, StoreUnavailable
from agor.protocol.api import ExecutorInfo

log = structlog.get_logger("agor.people")

#: Seconds between two attempts while the store cannot write.
_PAUSE = 1.0


class Departures:
    """Ends what people may not have any more."""

    def __init__(
        self,
        people: People,
        executors: Executors,
        unix_user_of: Callable[[str], UnixIdentity],
        stops: TaskStops,
        revocations: Revocations,
    ) -> None:
        self._people = people
        self._executors = executors
        self._unix_user_of = unix_user_of
        self._stops = stops
        self._revocations = revocations
        self._work: dict[str, asyncio.Task[None]] = {}
        people.on_change.append(self._changed)
        people.on_revoked.append(lambda way_id: revocations.tell(Lost(via=way_id)))

    def recover(self) -> None:
        """Do what an earlier daemon has not finished."""
        for row in self._people.everybody():
            if row.disabled_at is not None:
                self._begin(row.user_id, _gone(row))
        for each in self._executors.describe():
            if not self._is_theirs(each):
                self._begin(each.user_id, _another(self._people.get(each.user_id)))

    def _is_theirs(self, executor: ExecutorInfo) -> bool:
        """Tell whether an executor that was taken back runs as who its person is now."""
        try:
            return self._unix_user_of(executor.user_id).name == executor.unix_user
        except AgorError:
            # They are nobody here any more.
            return False

    def _changed(self, before: UserRow, row: UserRow) -> None:
        # Whoever may still look comes back at once, as who they are now.
        self._revocations.tell(Lost(user_id=row.user_id))
        if row.disabled_at is not None:
            self._begin(row.user_id, _gone(row))
        elif row.unix_username != before.unix_username:
            self._begin(row.user_id, _another(row))

    def _begin(self, user_id: str, why: str) -> None:
        if (earlier := self._work.pop(user_id, None)) is not None:
            earlier.cancel()
        task = asyncio.create_task(self._stop_all(user_id, why))
        self._work[user_id] = task
        task.add_done_callback(lambda done: self._done(user_id, done))

    async def _stop_all(self, user_id: str, why: str) -> None:
        while True:
            try:
                await self._stops.stop_all_of(user_id, why)
            except StoreUnavailable as error:
                log.warning("not_stopped_yet", user=user_id, why=error.message)
                await asyncio.sleep(_PAUSE)
            else:
                return

    def _done(self, user_id: str, task: asyncio.Task[None]) -> None:
        if self._work.get(user_id) is task:
            del self._work[user_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("departure_failed", user=user_id, exc_info=error)

    async def close(self) -> None:
        """Leave the rest to the daemon after us."""
        tasks = list(self._work.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _another(row: UserRow) -> str:
    return f"{row.name} is another Unix user now"


def _gone(row: UserRow) -> str:
    return f"the account of {row.name} is disabled"
