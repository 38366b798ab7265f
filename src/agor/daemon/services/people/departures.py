"""People who go, or are not who they were: what they have under way ends with that.

Somebody who is disabled has no feeds, no tasks and no executors any more; somebody who is another
Unix user now must not go on in executors of the old one; what a guest asked for in a session stops
when the share is taken back; a viewer has no terminals. The change is stored first, so a daemon
that ends in between goes on with this when it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from agor.daemon.services import access
from agor.daemon.services.executors import Executors
from agor.daemon.services.live import LiveSession
from agor.daemon.services.people.people import People, principal
from agor.daemon.services.people.revocations import Lost, Revocations
from agor.daemon.services.people.shares import Shares
from agor.daemon.services.task_stops import TaskStops
from agor.daemon.store.rows import TaskRow, UserRow
from agor.environments.identity import UnixIdentity
from agor.errors import AgorError, StoreUnavailable
from agor.protocol.api import ExecutorInfo

log = structlog.get_logger("agor.people")

#: Seconds between two attempts while the store cannot write.
_PAUSE = 1.0
#: In place of a person, for the work that is about all guests.
_GUESTS = "guests"


class Departures:
    """Ends what people may not have any more."""

    def __init__(
        self,
        people: People,
        shares: Shares,
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
        shares.on_less.append(self._stop_guests)

    def recover(self) -> None:
        """Do what an earlier daemon has not finished."""
        for row in self._people.everybody():
            if row.disabled_at is not None:
                self._stop_all(row.user_id, _gone(row))
            self._close_terminals(row)
        for each in self._executors.describe():
            if not self._is_theirs(each):
                self._stop_all(each.user_id, _another(self._people.get(each.user_id)))
        self._stop_guests()

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
            self._stop_all(row.user_id, _gone(row))
        elif row.unix_username != before.unix_username:
            self._stop_all(row.user_id, _another(row))
        if row.role != before.role:
            self._stop_guests()
            self._close_terminals(row)

    def _stop_all(self, user_id: str, why: str) -> None:
        self._begin(user_id, partial(self._stops.stop_all_of, user_id, why))

    def _close_terminals(self, row: UserRow) -> None:
        """Close the terminals of somebody who could not even look at them any more."""
        if not access.may(principal(row), "terminal.use"):
            self._begin(f"terminals of {row.user_id}", partial(self._end_terminals, row))

    async def _end_terminals(self, row: UserRow) -> None:
        for each in self._executors.describe():
            if each.user_id == row.user_id and each.terminal_id is not None:
                await self._executors.stop(each.terminal_id, f"{row.name} is a {row.role} now")

    def _stop_guests(self) -> None:
        """Stop what people asked for in sessions of others where they may not prompt any more."""
        why = "who asked for it may not prompt in this session any more"
        self._begin(_GUESTS, partial(self._stops.stop_those, self._is_unwelcome, why))

    def _is_unwelcome(self, live: LiveSession, task: TaskRow) -> bool:
        owner = live.row.user_id
        if task.user_id == owner:
            return False
        who = principal(self._people.get(task.user_id))
        return not access.may(who, "session.prompt", access.tie_to(who, owner, live.shares))

    # ── until it is done ─────────────────────────────────────────────────────────────────────

    def _begin(self, whose: str, stop: Callable[[], Awaitable[None]]) -> None:
        if (earlier := self._work.pop(whose, None)) is not None:
            earlier.cancel()
        task = asyncio.create_task(self._carry_through(whose, stop))
        self._work[whose] = task
        task.add_done_callback(lambda done: self._done(whose, done))

    async def _carry_through(self, whose: str, stop: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await stop()
            except StoreUnavailable as error:
                log.warning("not_stopped_yet", whose=whose, why=error.message)
                await asyncio.sleep(_PAUSE)
            else:
                return

    def _done(self, whose: str, task: asyncio.Task[None]) -> None:
        if self._work.get(whose) is task:
            del self._work[whose]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("departure_failed", whose=whose, exc_info=error)

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
