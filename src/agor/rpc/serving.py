"""Carries out what the other end asks: runs handlers and collects their answers.

Invariants:
- every request is answered exactly once, with its own id, or the connection ends;
- at most `max_in_flight` handlers are waiting at any time.

A handler that returns at once is answered in line, in the same read: no task, no bookkeeping. Only
one that waits gets an entry in the table of what is under way: a coroutine, which gets a task and
may be cancelled before its first step, or a future of what has begun already, which is told so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from types import CoroutineType
from typing import Any

import structlog
from msgspec import UNSET, Raw, UnsetType

from agor.errors import (
    AgorError,
    Cancelled,
    InvalidRequest,
    MethodNotFound,
    Overloaded,
    RpcError,
)
from agor.protocol.envelope import (
    ABSENT,
    CANCEL_REQUEST,
    Answer,
    CancelRequest,
    Message,
    RequestId,
    failure,
    revive_error,
)
from agor.protocol.validation import UNREADABLE, ParamsReader, quoted
from agor.rpc.answers import Batch, Reply
from agor.rpc.outbound import Pending
from agor.rpc.routes import Routes, Stream

log = structlog.get_logger("agor.rpc")

_read_cancel = ParamsReader(CancelRequest)

#: What a handler returns that waits.
_Work = Coroutine[Any, Any, Any] | asyncio.Future[Any]
_WAITS: frozenset[type] = frozenset((CoroutineType, asyncio.Future))


class Serving:
    """What is being done for the other end, on one connection."""

    def __init__(
        self, routes: Routes, pending: Pending, max_in_flight: int, flush: Callable[[], None]
    ) -> None:
        self._routes = routes
        self.streams = routes.streams
        self._pending = pending
        self._max_in_flight = max_in_flight
        self._flush = flush
        self._in_flight: dict[object, asyncio.Future[Any]] = {}
        self._spared: asyncio.Future[Any] | None = None
        #: Ids of answers that wait in a batch for the rest of it.
        self._owed: set[RequestId] = set()
        self._faults = 0
        #: What the other end last said to us about no request in particular.
        self.complaint: str | None = None
        #: Answers that are ready and not yet written; that of a whole batch is rendered already.
        self.answers: list[Reply | Raw] = []

    @property
    def busy(self) -> bool:
        """Whether handlers are still at work."""
        return bool(self._in_flight)

    @property
    def tasks(self) -> list[asyncio.Future[Any]]:
        """The handlers that are still at work."""
        return list(self._in_flight.values())

    def spare(self, task: asyncio.Task[Any] | None) -> None:
        """Leave out this one when handlers are cancelled."""
        self._spared = task

    def cancel_all(self) -> list[asyncio.Future[Any]]:
        """Cancel the handlers that are still at work: nobody is left to hear their answers."""
        tasks = [task for task in self._in_flight.values() if task is not self._spared]
        for task in tasks:
            task.cancel()
        return tasks

    def take_run(self, stream: Stream[Any], run: list[Any]) -> None:
        """Hand over what came together of one stream."""
        try:
            stream.take(run)
        except Exception as error:
            log.error("handler_bug", method=stream.name, exc_info=error)

    def serve(self, messages: Sequence[Message], batch: Batch | None) -> None:
        """Carry out well-formed messages. This is the hot path: a few steps a message."""
        routes, in_flight = self._routes, self._in_flight
        append = self.answers.append if batch is None else batch.append
        for message in messages:
            route = routes.get(message.method)  # type: ignore[arg-type]  # UNSET is no key
            if route is None or (in_flight and self._is_taken(message.id)):
                self._serve_odd(message, batch)
                continue
            decode, repair, handle = route
            params: Any = message.params
            try:
                try:
                    params = decode(params)
                except UNREADABLE:
                    params = repair(params)
                result = handle(params)
            except Exception as error:  # noqa: BLE001 - whatever it was, the caller must hear it
                self._fail(message, error, batch)
                continue
            request_id = message.id
            if result is None and request_id is UNSET:
                continue
            if result.__class__ in _WAITS:
                self._start(message, result, batch)  # type: ignore[arg-type]  # seen to be one
            elif request_id is not UNSET:
                append(Answer(request_id, result))

    def _serve_odd(self, message: Message, batch: Batch | None) -> None:
        method = message.method
        if method is UNSET:
            self._take_answer(message, batch)
        elif self._is_taken(message.id):
            self.refuse(
                InvalidRequest(f"id {quoted(message.id)} is in use by an unanswered request"), batch
            )
        elif method == CANCEL_REQUEST:
            self._cancel(message, batch)
        else:
            self._fail(message, MethodNotFound(f"there is no method {quoted(method)}"), batch)

    def _start(self, message: Message, work: _Work, batch: Batch | None) -> None:
        if len(self._in_flight) >= self._max_in_flight:
            _call_off(work)
            error = Overloaded(
                f"{self._max_in_flight} requests are already under way",
                hint="Wait for answers before asking again.",
            )
            self._fail(message, error, batch)
            return
        # Requests without an id, or with null, can be many at once and cannot be cancelled.
        key = message.id if isinstance(message.id, int | str) else object()
        task = asyncio.ensure_future(work)
        self._in_flight[key] = task
        if batch is not None:
            batch.waiting += 1
        # In a callback, not in a wrapping coroutine: a task that is cancelled before its first
        # step never enters its coroutine, and its request would stay without an answer.
        task.add_done_callback(partial(self._finish, message, key, batch))

    def _finish(
        self, message: Message, key: object, batch: Batch | None, task: asyncio.Future[Any]
    ) -> None:
        del self._in_flight[key]
        if task.cancelled():
            self._fail(message, Cancelled("the request was cancelled"), batch)
        elif error := task.exception():
            self._fail(message, error, batch)
        elif message.id is not UNSET:
            self._join(Answer(message.id, task.result()), batch)
        if batch is not None:
            self.release(batch)
        self._flush()

    def _fail(self, message: Message, error: BaseException, batch: Batch | None) -> None:
        if not isinstance(error, AgorError):
            log.error("handler_bug", method=message.method, exc_info=error)
        if message.id is not UNSET:
            self._join(failure(message.id, error), batch)
        elif isinstance(error, AgorError):
            self.note_fault(f"notification {quoted(message.method)}: {error.message}")

    def _cancel(self, message: Message, batch: Batch | None) -> None:
        try:
            task = self._in_flight.get(_read_cancel(message.params).id)
        except AgorError as error:
            self._fail(message, error, batch)
            return
        if task is not None:
            task.cancel()
        if message.id is not UNSET:
            self._join(Answer(message.id, None), batch)

    def _take_answer(self, message: Message, batch: Batch | None) -> None:
        if message.result is ABSENT and message.error is ABSENT:
            request_id = None if message.id is UNSET else message.id
            what = "message: neither a call nor an answer"
            if not self._pending.reject(request_id, what):
                self.refuse(InvalidRequest(what), batch, request_id)
        elif message.id is None:
            self.complaint = revive_error(message.error).message
            self.note_fault(f"the other end complains: {self.complaint}")
        elif not self._pending.settle(message):
            self.note_fault(f"answer to nothing: id {quoted(message.id)}")

    # ── what nobody should have sent ─────────────────────────────────────────────────────────

    def refuse(
        self, error: RpcError, batch: Batch | None = None, request_id: RequestId = None
    ) -> None:
        """Answer something that is no proper request."""
        self.note_fault(error.message)
        # Under the id of an unanswered request it would look like that one's answer.
        self._join(failure(None if self._is_taken(request_id) else request_id, error), batch)

    def note_fault(self, what: str) -> None:
        """Count a fault of the other end."""
        # Only the first is worth a line in the log: the other end decides how many there are.
        self._faults += 1
        if self._faults == 1:
            log.warning("peer_sent_nonsense", what=what)

    # ── answers ──────────────────────────────────────────────────────────────────────────────

    def _is_taken(self, request_id: RequestId | UnsetType) -> bool:
        """Whether an answer under this id is still owed."""
        return request_id in self._in_flight or request_id in self._owed

    def _join(self, reply: Reply, batch: Batch | None) -> None:
        (self.answers if batch is None else batch).append(reply)

    def release(self, batch: Batch) -> None:
        """One of those that hold a batch back is done; after the last, it can be answered."""
        batch.waiting -= 1
        if batch.waiting:
            self._owed |= batch.owed
            return
        self._owed -= batch.owed
        if line := batch.render():
            self.answers.append(line)


def _call_off(work: _Work) -> None:
    if isinstance(work, asyncio.Future):
        work.cancel()
    else:
        work.close()
