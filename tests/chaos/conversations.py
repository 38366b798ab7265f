"""Who talks to the daemon in a chaos run, who follows, and what must have come of it."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from agor.client import Client
from agor.errors import AgorError, Conflict, NotFound
from agor.protocol.api import FeedEvent, Task
from agor.protocol.validation import quoted

#: Words of a task, each told with a little pause.
WORDS = 30
_ENDED = ("completed", "failed", "stopped", "timed_out")


def script(marker: str, *, ask: bool) -> str:
    """What a task does: a process that runs away, words, and perhaps a question in between."""
    steps: list[Any] = [{"run": ["sh", "-c", "setsid sleep 3000 & (sleep 3001 &) ; echo away"]}]
    for number in range(WORDS):
        steps += [{"text": f"<{marker}:{number}>"}, {"delay_ms": 5}]
        if ask and number == WORDS // 2:
            steps.append({"tool": {"name": "Write", "input": {"n": number}, "ask": True}})
    return json.dumps(steps)


@dataclass
class Faults:
    """What went wrong, and what was looked at."""

    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    #: Events of a task behind the one that ended it.
    after_end: list[str] = field(default_factory=list)
    tasks: Counter[str] = field(default_factory=Counter)
    events: int = 0

    @property
    def all(self) -> list[str]:
        """All that went wrong."""
        return [*self.lost, *self.duplicated, *self.after_end]


class Talker:
    """Sends prompts to one session, one or two at a time, and answers what is asked."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client = client
        self._session_id = session_id
        self._count = 0
        #: Prompts that were answered with 202: the task, and the marker of its words.
        self.accepted: dict[str, str] = {}
        self.leave_a_question = False
        self._last: str | None = None

    async def run(self) -> None:
        """Talk, until the last task is one with a question that is left open."""
        while not self.leave_a_question:
            tasks = [await self._prompt(ask=random.random() < 0.3)]
            if random.random() < 0.3:
                tasks.append(await self._prompt(ask=False))
            for task_id in tasks:
                await self._see_through(task_id)
        while self._last is None:
            task_id = await self._prompt(ask=True)
            if await self._wait(task_id, ("awaiting_permission",)) == "awaiting_permission":
                self._last = task_id

    async def _prompt(self, *, ask: bool) -> str:
        self._count += 1
        marker = f"{self._session_id[-6:]}.{self._count}"
        while True:
            try:
                accepted = await self._client.prompt(
                    self._session_id, script(marker, ask=ask), key=marker
                )
            except AgorError:
                # Nobody is there now. If it was accepted all the same, the key says so.
                await asyncio.sleep(0.1)
                continue
            self.accepted[accepted.task_id] = marker
            return accepted.task_id

    async def _see_through(self, task_id: str) -> None:
        while await self._wait(task_id, ("awaiting_permission", *_ENDED)) not in _ENDED:
            await self._say_yes(task_id)

    async def _wait(self, task_id: str, states: tuple[str, ...]) -> str:
        while True:
            try:
                task = await self._client.task(task_id)
            except AgorError as error:
                if isinstance(error, NotFound):
                    raise
            else:
                if task.status in states or task.status in _ENDED:
                    return task.status
            await asyncio.sleep(0.05)

    async def _say_yes(self, task_id: str) -> None:
        try:
            async for permission in self._client.permissions(status="pending"):
                if permission.task_id == task_id:
                    await self._client.decide(permission.permission_id, approved=True)
        except Conflict:
            # It was stored, and the answer to us was lost.
            pass
        except AgorError:
            await asyncio.sleep(0.05)

    async def answer_the_question(self, faults: Faults) -> None:
        """The question that was left must still be there, once; then let the task end."""
        assert self._last is not None
        task = await self._client.task(self._last)
        if task.status in _ENDED:
            faults.lost.append(f"{self._last} waited for an answer and is {_why(task)}")
            return
        pending = [
            permission
            async for permission in self._client.permissions(status="pending")
            if permission.task_id == self._last
        ]
        if len(pending) != 1:
            faults.lost.append(f"{self._last} has {len(pending)} open questions, not one")
            return
        await self._client.decide(pending[0].permission_id, approved=True)
        await self._see_through(self._last)


class Follower:
    """Follows one session from its beginning, through every restart."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client = client
        self._session_id = session_id
        self.events: list[FeedEvent] = []
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Follow, and be cut off by hand as well now and then."""
        while True:
            after = self.events[-1].sequence if self.events else 0
            stay = random.randint(50, 2000)
            async for event in self._client.follow(self._session_id, after=after):
                self.events.append(event)
                self._news.set()
                stay -= 1
                if not stay:
                    break

    async def reach(self, sequence: int) -> None:
        """Wait until it has come so far."""
        while not self.events or self.events[-1].sequence < sequence:
            self._news.clear()
            await self._news.wait()


async def examine(client: Client, session_id: str, follower: Follower, faults: Faults) -> None:
    """Hold a session's feed against what its tasks must have produced."""
    last = (await client.messages(session_id)).sequence
    await follower.reach(last)
    live = follower.events[:last]
    replayed = []
    async for event in client.follow(session_id):
        replayed.append(event)
        if event.sequence == last:
            break
    faults.events += last
    sequences = [event.sequence for event in live]
    if sequences != list(range(1, last + 1)):
        faults.duplicated += [
            f"{session_id}: event {n}" for n, c in Counter(sequences).items() if c > 1
        ]
        faults.lost += [
            f"{session_id}: event {n}" for n in set(range(1, last + 1)) - set(sequences)
        ]
    if [_plain(event) for event in live] != [_plain(event) for event in replayed]:
        faults.lost.append(f"{session_id}: what was seen live is not what is replayed")
    async for task in client.tasks(session_id):
        faults.tasks[task.status] += 1
        _examine_task(task, live, faults)


def _examine_task(task: Task, events: list[FeedEvent], faults: Faults) -> None:
    name = f"{task.session_id} {task.task_id}"
    mine = [event for event in events if event.task_id == task.task_id]
    text = "".join(
        event.data["text"]
        for event in mine
        if event.type == "block_delta" and not event.data["block_id"].endswith("-prompt")
    )
    marker = json.loads(task.prompt)[1]["text"].strip("<>").partition(":")[0]
    counts = [text.count(f"<{marker}:{number}>") for number in range(WORDS)]
    faults.duplicated += [f"{name}: word {n} {c} times" for n, c in enumerate(counts) if c > 1]
    told = [number for number, count in enumerate(counts) if count]
    if told != list(range(len(told))):
        faults.lost.append(f"{name}: words {quoted(told)}")
    if task.status == "completed":
        if len(told) != WORDS:
            faults.lost.append(f"{name}: completed with {len(told)} words")
    elif task.status != "failed" or task.error is None:
        faults.lost.append(f"{name}: is {_why(task)}")
    ends = [event for event in mine if event.type == "task" and event.data["status"] in _ENDED]
    if len(ends) != 1 or ends[0].data["status"] != task.status:
        faults.lost.append(f"{name}: is {task.status}, and its feed tells {len(ends)} ends")
    for end in ends[:1]:
        faults.after_end += [
            f"{name}: event {event.sequence} ({event.type}) follows the end, {end.sequence}"
            for event in mine
            if event.sequence > end.sequence
        ]


def _why(task: Task) -> str:
    return f"{task.status} ({task.error.message})" if task.error else task.status


def _plain(event: FeedEvent) -> tuple[Any, ...]:
    return (event.sequence, event.type, event.task_id, event.data, event.created_at)
