"""Follows a session at the terminal: shows it, has questions answered, stops it, or leaves it.

Ctrl-C stops the task and waits for that; a second one leaves. So does Ctrl-D, and nothing is
stopped then. Whoever has left can attach again.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from agor.cli import exit_codes
from agor.cli.answering import Answering
from agor.cli.showing import Showing
from agor.client import Client, Feed
from agor.errors import AgorError
from agor.protocol.api import FeedEvent, Permission, Session, TaskState

#: Events that are kept while a question is open; then nothing more is read until it is answered.
_MOST_KEPT = 10_000
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Watch:
    """One look at a session, until the tasks that matter have ended or the person leaves."""

    def __init__(
        self, client: Client, session: Session, showing: Showing, answering: Answering
    ) -> None:
        self._client = client
        self._session = session
        self._showing = showing
        self._answering = answering
        #: Those that are waited for.
        self._open: set[str] = set()
        self._last: TaskState | None = None
        #: Events that came while a question was open.
        self._kept: deque[FeedEvent] = deque()
        self._reading: asyncio.Task[FeedEvent] | None = None
        self._question: asyncio.Task[bool] | None = None
        self._asked: set[str] = set()
        self._stopping: asyncio.Task[None] | None = None
        #: The exit code of who leaves.
        self._left: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def follow(
        self, feed: Feed, task_ids: Iterable[str], pending: Iterable[Permission] = ()
    ) -> int:
        """Follow until these tasks have ended; gives the exit code."""
        self._open = set(task_ids)
        watching = asyncio.create_task(self._watch(feed, pending))
        with self._hearing_signals():
            try:
                either: set[asyncio.Future[Any]] = {watching, self._left}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    # If it has failed, this says why.
                    watching.result()
            except AgorError:
                self._say_goodbye()
                raise
            finally:
                await _end(self._question, watching, self._reading, self._stopping)
        if self._left.done():
            self._say_goodbye()
            return self._left.result()
        return self._code()

    def leave(self, code: int = exit_codes.COMPLETED) -> None:
        """Leave the task alone; it goes on."""
        if not self._left.done():
            self._left.set_result(code)

    # ── events ───────────────────────────────────────────────────────────────────────────────

    async def _watch(self, feed: Feed, pending: Iterable[Permission]) -> None:
        for asked in pending:
            await self._answer(asked, feed)
        while self._open:
            event = self._kept.popleft() if self._kept else await self._read(feed)
            self._showing.take(event)
            if event.type == "task":
                self._note(msgspec.convert(event.data, TaskState))
            elif event.type == "permission":
                await self._answer(msgspec.convert(event.data, Permission), feed)

    async def _read(self, feed: Feed) -> FeedEvent:
        if self._reading is None:
            self._reading = asyncio.ensure_future(anext(feed))
        # It may be waited for by who asks a question at the same time, and is not to be lost.
        event = await asyncio.shield(self._reading)
        self._reading = None
        return event

    def _note(self, task: TaskState) -> None:
        if task.ended_at is not None and task.task_id in self._open:
            self._open.discard(task.task_id)
            self._last = task

    def _code(self) -> int:
        code = exit_codes.FAILED if self._last is None else exit_codes.BY_STATUS[self._last.status]
        missed = self._answering.missed and code == exit_codes.COMPLETED
        return exit_codes.NOBODY_TO_ASK if missed else code

    # ── questions ────────────────────────────────────────────────────────────────────────────

    async def _answer(self, asked: Permission, feed: Feed) -> None:
        """Have a question answered, and go on reading: somebody else may do it first."""
        if asked.status != "pending":
            self._answering.note(asked)
        if asked.status != "pending" or asked.permission_id in self._asked or self._stopping:
            return
        self._asked.add(asked.permission_id)
        if any(_answers(event, asked) for event in self._kept):
            return
        question = self._question = asyncio.create_task(self._answering.answer(asked))
        while not question.done() and len(self._kept) < _MOST_KEPT:
            reading = asyncio.create_task(self._read(feed))
            await asyncio.wait({question, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()
                break
            self._kept.append(reading.result())
            if _answers(self._kept[-1], asked):
                self._answering.withdraw()
        await asyncio.wait({question})
        self._question = None
        if not question.result():
            self.leave()

    # ── the person ───────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def _hearing_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        for number in _ENDING:
            loop.add_signal_handler(number, self.leave, 128 + number)
        try:
            yield
        finally:
            for number in (signal.SIGINT, *_ENDING):
                loop.remove_signal_handler(number)

    def _interrupt(self) -> None:
        if self._stopping is not None:
            self.leave(exit_codes.STOPPED)
            return
        self._stopping = asyncio.create_task(self._stop())
        self._answering.withdraw()

    async def _stop(self) -> None:
        self._showing.doing("stopping", "Ctrl-C again leaves without waiting")
        self._showing.note("Stopping the task, and waiting for it. Ctrl-C again leaves.")
        for task_id in sorted(self._open):
            try:
                await self._client.stop_task(task_id, reason="stopped at the terminal")
            except AgorError as error:
                self._showing.note(f"It was not stopped: {error.message}")

    def _say_goodbye(self) -> None:
        how = "is being stopped" if self._stopping else "goes on"
        self._showing.note(f"You have left, and the task {how}. Come back to it with:")
        self._showing.note(f"  agor session attach {self._session.session_id}")


def _answers(event: FeedEvent, asked: Permission) -> bool:
    if event.type != "permission":
        return False
    told = msgspec.convert(event.data, Permission)
    return told.permission_id == asked.permission_id and told.status != "pending"


async def _end(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel what is still under way, and wait for that."""
    left = [task for task in tasks if task is not None]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
