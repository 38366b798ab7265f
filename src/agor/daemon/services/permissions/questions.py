"""The questions that agents have put and that nobody has answered yet, in memory.

Whoever asks waits here for the answer. Answers of tasks that have not ended are remembered for a
while: an executor that was cut off asks again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from agor.daemon.services import views
from agor.daemon.services.line import Entry
from agor.daemon.services.live import LiveSession
from agor.daemon.services.stamps import Stopwatch, now
from agor.daemon.store import permissions
from agor.daemon.store.rows import PermissionRow
from agor.protocol.methods import RequestPermissionResult

#: Answers that are remembered; an older one is in the store.
_MOST_REMEMBERED = 4096

#: How an executor knows a question: by its task and request_id.
Asked = tuple[str, str]


class Pending:
    """A question without an answer, and those who wait for it."""

    def __init__(self, row: PermissionRow, live: LiveSession) -> None:
        self.row = row
        self.live = live
        self.age = Stopwatch(row.created_at)
        self.answer: asyncio.Future[PermissionRow] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None


class Questions:
    """All open questions."""

    def __init__(self) -> None:
        self._pending: dict[str, Pending] = {}
        self._asked: dict[Asked, Pending] = {}
        self._answers: OrderedDict[Asked, RequestPermissionResult] = OrderedDict()
        #: Called when the time of a question is over.
        self.time_is_over: Callable[[Pending], None] = lambda _: None

    def open(self, row: PermissionRow, live: LiveSession) -> Pending:
        """Take in a question that is stored, and begin its time."""
        pending = Pending(row, live)
        self._pending[row.permission_id] = self._asked[row.task_id, row.request_id] = pending
        # At most all of its time, wherever the clock was set meanwhile.
        left = min(row.expires_at - now(), row.expires_at - row.created_at)
        self.wait(pending, max(0, left) / 1000)
        return pending

    def wait(self, pending: Pending, seconds: float) -> None:
        """Have the time of a question be over after so long."""
        loop = asyncio.get_running_loop()
        pending.timer = loop.call_later(seconds, self.time_is_over, pending)

    def settle(self, pending: Pending, row: PermissionRow) -> None:
        """Give an answer that is stored to those who wait for it."""
        del self._pending[row.permission_id]
        del self._asked[row.task_id, row.request_id]
        if pending.timer is not None:
            pending.timer.cancel()
        self.remember(row)
        pending.answer.set_result(row)

    def remember(self, row: PermissionRow) -> None:
        """Keep an answer for those who ask again."""
        self._answers[row.task_id, row.request_id] = answer_of(row)
        while len(self._answers) > _MOST_REMEMBERED:
            self._answers.popitem(last=False)

    def close(self) -> None:
        """Let open questions be, for the daemon after us."""
        for pending in self._pending.values():
            if pending.timer is not None:
                pending.timer.cancel()

    # ── found ────────────────────────────────────────────────────────────────────────────────

    def asked(self, asked: Asked) -> Pending | RequestPermissionResult | None:
        """Find what is known of a question by how its executor calls it."""
        return self._asked.get(asked) or self._answers.get(asked)

    def get(self, permission_id: str) -> Pending | None:
        """Find a question that is open."""
        return self._pending.get(permission_id)

    def is_open(self, pending: Pending) -> bool:
        """Tell whether there is no answer yet."""
        return self._pending.get(pending.row.permission_id) is pending

    def of_task(self, task_id: str) -> list[Pending]:
        """List those that a task waits for."""
        return [each for each in self._pending.values() if each.row.task_id == task_id]

    def of_user(self, user_id: str) -> list[Pending]:
        """List those in a person's sessions."""
        return [each for each in self._pending.values() if each.live.row.user_id == user_id]

    # ── the end of a task ────────────────────────────────────────────────────────────────────

    def withdraw(self, task_id: str, entry: Entry) -> list[PermissionRow]:
        """Its task ends: nobody waits for an answer any more."""
        rows = []
        for pending in self.of_task(task_id):
            row = msgspec.structs.replace(
                pending.row,
                status="cancelled",
                decided_at=pending.age.now(),
                reason="its task has ended",
            )
            entry.also(permissions.decide(row))
            entry.tell("permission", task_id, views.permission(row))
            rows.append(row)
        return rows

    def withdrawn(self, rows: list[PermissionRow]) -> None:
        """Apply what `withdraw` has prepared, now that it is stored."""
        for row in rows:
            if (pending := self._pending.get(row.permission_id)) is not None:
                self.settle(pending, row)

    def forget(self, task_id: str) -> None:
        """A task has ended: nobody asks for it again."""
        for key in [key for key in self._answers if key[0] == task_id]:
            del self._answers[key]


def answer_of(row: PermissionRow) -> RequestPermissionResult:
    """Say to the agent what was decided."""
    updated = None if row.updated_input is None else msgspec.json.decode(row.updated_input)
    return RequestPermissionResult(
        approved=row.status == "approved", reason=row.reason, updated_input=updated
    )
