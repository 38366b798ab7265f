"""Tasks, as people use them: prompts go into a durable queue, are listed, moved."""

from __future__ import annotations

import msgspec

from agor.daemon.services import views
from agor.daemon.services.access import Action
from agor.daemon.services.dispatch import Dispatcher
from agor.daemon.services.executors import Executors
from agor.daemon.services.line import Entry
from agor.daemon.services.live import LiveSession, LiveSessions, Turn
from agor.daemon.services.principal import Principal
from agor.daemon.services.receipts import Receipt
from agor.daemon.services.stamps import new_id, time_of
from agor.daemon.services.workspaces.workspaces import Workspaces
from agor.daemon.store import tasks
from agor.daemon.store.base import Store
from agor.daemon.store.rows import TaskRow
from agor.errors import Conflict, Forbidden, NotFound
from agor.protocol.api import (
    NewPrompt,
    Page,
    PromptAccepted,
    Task,
    TaskMove,
    TaskStatus,
)
from agor.protocol.validation import quoted

#: Prompts of one session that may wait.
_MOST_QUEUED = 1000


class Tasks:
    """The tasks of all sessions."""

    def __init__(
        self,
        store: Store,
        lives: LiveSessions,
        executors: Executors,
        dispatcher: Dispatcher,
        workspaces: Workspaces,
    ) -> None:
        self._executors = executors
        self._store = store
        self._lives = lives
        self._dispatcher = dispatcher
        self._workspaces = workspaces

    async def prompt(
        self, who: Principal, session_id: str, new: NewPrompt, receipt: Receipt | None = None
    ) -> PromptAccepted:
        """Take a prompt; once this returns it is safe, and will be run once."""
        session = await self._lives.get_for(who, session_id, "session.prompt")
        async with Turn(session) as live:
            live.check(who, "session.prompt")
            if live.row.status == "archived":
                raise Conflict(
                    "this session is archived", hint='PATCH it with {"archived": false} first.'
                )
            # In our turn, so that a removal sees what was taken before it, and we see the removal.
            self._workspaces.refuse_if_leaving(live.row)
            if len(live.queue) >= _MOST_QUEUED:
                raise Conflict(f"{_MOST_QUEUED} prompts wait in this session already")
            if live.current is None and not live.queue:
                self._executors.refuse_if_crowded(session_id)
            _check_mode(who, live, new)
            row = _new_task(who, live, new)
            queue = [*live.queue, row]
            place = None if live.current is None and len(queue) == 1 else len(queue)
            accepted = PromptAccepted(
                task_id=row.task_id,
                session_id=session_id,
                status=row.status,
                queue_position=place,
            )
            entry = Entry([tasks.insert(row)])
            if receipt is not None:
                entry.also(receipt.statement(202, accepted))
            entry.begin_task(row.task_id, views.task_state(row, len(queue)))
            if place is None and await self._begin(live, row, entry):
                return accepted
            await live.commit(entry, current=live.current, queue=queue)
        self._dispatcher.kick(live)
        return accepted

    async def _begin(self, live: LiveSession, row: TaskRow, entry: Entry) -> bool:
        """Commit a task as one that runs already, if an executor waits for it."""
        begun = self._dispatcher.bind_at_once(live, row, entry)
        if begun is None:
            return False
        with begun:
            await live.commit(entry, current=begun.task, queue=[])
        return True

    async def get(self, who: Principal, task_id: str) -> Task:
        """Show a task."""
        live, row = await find_task(self._store, self._lives, who, task_id, "session.view")
        return views.task(row, live.position_of(task_id))

    async def page(
        self,
        who: Principal,
        session_id: str,
        status: TaskStatus | None,
        cursor: str | None,
        limit: int,
    ) -> Page[Task]:
        """List a session's tasks, the newest first."""
        live = await self._lives.get_for(who, session_id, "session.view")
        rows = await tasks.page(
            self._store, session_id, status, views.read_cursor(cursor), limit + 1
        )
        return views.page(
            rows,
            limit,
            lambda row: views.task(row, live.position_of(row.task_id)),
            lambda row: (row.created_at, row.task_id),
            lambda row: len(row.prompt),
        )

    async def move(self, who: Principal, task_id: str, where: TaskMove) -> Task:
        """Give a waiting task another place in the queue."""
        session, _ = await find_task(self._store, self._lives, who, task_id, "session.prompt")
        async with Turn(session) as live:
            live.check(who, "session.prompt")
            moving = next((task for task in live.queue if task.task_id == task_id), None)
            if moving is None:
                raise Conflict(
                    "this task does not wait any more", hint="Only waiting tasks have a place."
                )
            others = [task for task in live.queue if task is not moving]
            others.insert(min(where.queue_position, len(others) + 1) - 1, moving)
            places = sorted(task.position for task in live.queue)
            queue: list[TaskRow] = [
                msgspec.structs.replace(task, position=place)
                for task, place in zip(others, places, strict=True)
            ]
            before = {task.task_id: task.position for task in live.queue}
            changed = [task for task in queue if before[task.task_id] != task.position]
            entry = Entry([tasks.update(task) for task in changed])
            _tell_places(entry, live.queue, queue)
            if changed:
                await live.commit(entry, current=live.current, queue=queue)
        return await self.get(who, task_id)


async def find_task(
    store: Store, lives: LiveSessions, who: Principal, task_id: str, action: Action
) -> tuple[LiveSession, TaskRow]:
    """Find a task that this person may do something to, and its session."""
    row = await tasks.get(store, task_id)
    missing = NotFound(f"there is no task {quoted(task_id)}")
    if row is None:
        raise missing
    try:
        live = await lives.get_for(who, row.session_id, action)
    except NotFound:
        # Its session has another name: to tell it would tell that there is such a task.
        raise missing from None
    # What is in memory is newer by what is being committed.
    for task in (live.current, *live.queue):
        if task is not None and task.task_id == task_id:
            return live, task
    return live, row


def _check_mode(who: Principal, live: LiveSession, new: NewPrompt) -> None:
    """A guest may not loosen what the session's owner has decided."""
    if who.user_id == live.row.user_id or new.permission_mode in (None, live.row.permission_mode):
        return
    raise Forbidden(
        f"permission_mode: only the session's owner can choose another than "
        f"{live.row.permission_mode}",
        hint="Leave it out.",
    )


def _new_task(who: Principal, live: LiveSession, new: NewPrompt) -> TaskRow:
    last = max((task.position for task in live.queue), default=0)
    current = live.current.position if live.current is not None else 0
    task_id = new_id()
    return TaskRow(
        task_id=task_id,
        session_id=live.session_id,
        user_id=who.user_id,
        status="queued",
        position=max(last, current) + 1,
        prompt=new.prompt,
        permission_mode=new.permission_mode or live.row.permission_mode,
        model=new.model or live.row.model,
        tools=msgspec.json.encode(new.tools),
        timeout_ms=new.timeout_ms,
        executor_id=None,
        received=0,
        created_at=time_of(task_id),
        started_at=None,
        ended_at=None,
        result=None,
        survivors=None,
    )


def _tell_places(entry: Entry, before: list[TaskRow], after: list[TaskRow]) -> None:
    """Tell of tasks whose place in the queue has changed."""
    places = {task.task_id: place for place, task in enumerate(before, 1)}
    for place, task in enumerate(after, 1):
        if places.get(task.task_id) != place:
            entry.tell("task", task.task_id, views.task_state(task, place))
