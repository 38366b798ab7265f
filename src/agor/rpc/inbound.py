"""The receiving half of a conversation: reads lines, runs handlers, collects their answers.

Invariants:
- every request is answered exactly once, with its own id, or the connection ends;
- a line that cannot be understood costs its sender an error and nobody else anything;
- at most `max_in_flight` handlers are waiting at any time.

A handler that returns at once is answered in line, in the same read: no task, no bookkeeping. Only
one that waits (a coroutine) gets a task and an entry in the table of what is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from types import CoroutineType
from typing import Any

import msgspec
import structlog
from msgspec import UNSET, Raw

from agor.errors import (
    AgorError,
    Cancelled,
    InvalidRequest,
    MethodNotFound,
    Overloaded,
    ParseError,
    RpcError,
)
from agor.protocol.envelope import (
    ABSENT,
    CANCEL_REQUEST,
    Answer,
    CancelRequest,
    Failure,
    Message,
    RequestId,
    failure,
)
from agor.protocol.validation import UNREADABLE, ParamsReader, name_the_field
from agor.rpc.diagnosis import diagnose
from agor.rpc.framing import LineFramer
from agor.rpc.limits import Limits
from agor.rpc.outbound import Pending
from agor.rpc.routes import Routes

log = structlog.get_logger("agor.rpc")

_decode_message = msgspec.json.Decoder(Message).decode
_decode_batch = msgspec.json.Decoder(list[Raw]).decode
_read_cancel = ParamsReader(CancelRequest)
#: What lines that are not messages raise; an overlong one is None, hence the type error.
ODD = (*UNREADABLE, TypeError)

Reply = Answer | Failure


#: Requests of one read that are carried out before their answers leave, so that the other end can
#: go on while we work on the rest.
_PIECE = 32


class Batch:
    """The answers of one batch, held together until the last of them is ready."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        #: Handlers still at work, and the reading of the batch itself.
        self.waiting = 1


class Inbound:
    """Everything the other end asked of us, on one connection."""

    def __init__(
        self, routes: Routes, pending: Pending, limits: Limits, flush: Callable[[], None]
    ) -> None:
        self._routes = routes
        self._pending = pending
        self._limits = limits
        self._flush = flush
        self._framer = LineFramer(limits.max_line)
        self._in_flight: dict[object, asyncio.Task[Any]] = {}
        self._faults = 0
        #: Answers that are ready and not yet written; a batch is answered by a list.
        self.answers: list[Reply | list[Reply]] = []

    def receive(self, data: bytes) -> None:
        """Take what was read and do what it says."""
        framer = self._framer
        first_is_joined = framer.held
        lines = framer.feed(data)
        try:
            # The decoder checks the text that it decodes; payloads that stay raw are checked here.
            if not data.isascii():
                for line in lines:
                    str(line, "utf-8")  # type: ignore[arg-type]  # None is odd too
            elif first_is_joined and lines:
                str(lines[0], "utf-8")  # type: ignore[arg-type]
            messages = list(map(_decode_message, lines))  # type: ignore[arg-type]
        except ODD:
            self._receive_one_by_one(lines)
        else:
            while len(messages) > _PIECE:
                self._serve(messages[:_PIECE], self.answers, None)
                self._flush()
                del messages[:_PIECE]
            self._serve(messages, self.answers, None)
        if self.answers:
            self._flush()

    def end(self) -> int:
        """Tell how many bytes of an unfinished line the stream ended with."""
        held = self._framer.held
        if held:
            self._refuse(ParseError(f"the stream ended in mid-line, after {held} bytes of it"))
        return held

    @property
    def busy(self) -> bool:
        """Whether handlers are still at work."""
        return bool(self._in_flight)

    def cancel_all(self) -> list[asyncio.Task[Any]]:
        """Cancel the handlers that are still at work: nobody is left to hear their answers."""
        tasks = list(self._in_flight.values())
        for task in tasks:
            task.cancel()
        return tasks

    # ── one message ──────────────────────────────────────────────────────────────────────────

    def _serve(self, messages: Iterable[Message], replies: list[Any], batch: Batch | None) -> None:
        """Carry out well-formed messages. This is the hot path: a few steps a message."""
        routes, in_flight = self._routes, self._in_flight
        for message in messages:
            request_id = message.id
            route = routes.get(message.method)
            if route is None or (in_flight and request_id in in_flight):
                self._serve_odd(message, batch)
                continue
            try:
                try:
                    params = (
                        message.params if route.decode is None else route.decode(message.params)
                    )
                except UNREADABLE:
                    params = route.repair(message.params)
                result = route.handle(params)
            except Exception as error:  # noqa: BLE001 - whatever it was, the caller must hear it
                self._fail(message, error, batch)
                continue
            if type(result) is CoroutineType:
                self._start(message, result, batch)
            elif request_id is not UNSET:
                replies.append(Answer(request_id, result))

    def _serve_odd(self, message: Message, batch: Batch | None) -> None:
        method = message.method
        if not method:
            self._take_answer(message, batch)
        elif message.id in self._in_flight:
            # Answered under no id: under its own, it would look like the first one's answer.
            error = InvalidRequest(f"id {message.id!r} is in use by an unanswered request")
            self._refuse(error, batch)
        elif method == CANCEL_REQUEST:
            self._cancel(message, batch)
        else:
            self._fail(message, MethodNotFound(f"there is no method {method!r}"), batch)

    def _start(self, message: Message, work: Coroutine[Any, Any, Any], batch: Batch | None) -> None:
        if len(self._in_flight) >= self._limits.max_in_flight:
            work.close()
            error = Overloaded(
                f"{self._limits.max_in_flight} requests are already under way",
                hint="Wait for answers before asking again.",
            )
            self._fail(message, error, batch)
            return
        # Requests without an id, or with null, can be many at once and cannot be cancelled.
        key = message.id if isinstance(message.id, int | str) else object()
        task = asyncio.get_running_loop().create_task(work)
        self._in_flight[key] = task
        if batch is not None:
            batch.waiting += 1
        # In a callback, not in a wrapping coroutine: a task that is cancelled before its first
        # step never enters its coroutine, and its request would stay without an answer.
        task.add_done_callback(partial(self._finish, message, key, batch))

    def _finish(
        self, message: Message, key: object, batch: Batch | None, task: asyncio.Task[Any]
    ) -> None:
        del self._in_flight[key]
        if task.cancelled():
            self._fail(message, Cancelled("the request was cancelled"), batch)
        elif error := task.exception():
            self._fail(message, error, batch)
        elif message.id is not UNSET:
            self._join(Answer(message.id, task.result()), batch)
        if batch is not None:
            self._release(batch)
        self._flush()

    def _fail(self, message: Message, error: BaseException, batch: Batch | None) -> None:
        if not isinstance(error, AgorError):
            log.error("handler_bug", method=message.method, exc_info=error)
        if message.id is not UNSET:
            self._join(failure(message.id, error), batch)
        elif isinstance(error, AgorError):
            self._note_fault(f"notification {message.method!r}: {error.message}")

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
            self._refuse(InvalidRequest("neither a call nor an answer"), batch, request_id)
        elif message.id is None:
            self._note_fault("the other end could not read something we sent")
        elif not self._pending.settle(message):
            self._note_fault(f"answer to nothing: id {message.id!r}")

    # ── what is not one well-formed message ──────────────────────────────────────────────────

    def _receive_one_by_one(self, lines: list[bytes | None]) -> None:
        """Find the lines that are not messages, and do what the others say."""
        for line in lines:
            if line is None:
                self._refuse(ParseError(f"a line of over {self._limits.max_line} bytes"))
                continue
            try:
                line.decode()
                message = _decode_message(line)
            except UNREADABLE:
                self._receive_odd(line.strip())
            else:
                self._serve((message,), self.answers, None)

    def _receive_odd(self, text: bytes) -> None:
        if text.startswith(b"["):
            self._receive_batch(text)
        elif text:
            self._explain(text, None)

    def _receive_batch(self, text: bytes) -> None:
        try:
            text.decode()
            items = _decode_batch(text)
        except UNREADABLE as error:
            self._refuse(ParseError(name_the_field(error, "batch")))
            return
        if not items or len(items) > self._limits.max_batch:
            most = self._limits.max_batch
            self._refuse(InvalidRequest(f"a batch has 1 to {most} messages, not {len(items)}"))
            return
        batch = Batch()
        for item in items:
            try:
                message = _decode_message(item)
            except UNREADABLE:
                self._explain(bytes(item), batch)
            else:
                self._serve((message,), batch.replies, batch)
        self._release(batch)

    def _explain(self, text: bytes, batch: Batch | None) -> None:
        fault = diagnose(text)
        if fault.meant_as_answer:
            self._note_fault(fault.error.message)
            self._pending.reject(fault.request_id, fault.error.message)
        else:
            self._refuse(fault.error, batch, fault.request_id)

    def _refuse(
        self, error: RpcError, batch: Batch | None = None, request_id: RequestId = None
    ) -> None:
        self._note_fault(error.message)
        self._join(failure(request_id, error), batch)

    def _note_fault(self, what: str) -> None:
        # Only the first is worth a line in the log: the other end decides how many there are.
        self._faults += 1
        if self._faults == 1:
            log.warning("peer_sent_nonsense", what=what)

    # ── answers ──────────────────────────────────────────────────────────────────────────────

    def _join(self, reply: Reply, batch: Batch | None) -> None:
        (self.answers if batch is None else batch.replies).append(reply)

    def _release(self, batch: Batch) -> None:
        batch.waiting -= 1
        if not batch.waiting and batch.replies:
            self.answers.append(batch.replies)
