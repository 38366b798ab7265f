"""One HTTP/1.1 connection: reads requests, does what their answers say, notices who hangs up.

h11 knows the protocol. Each wait for the other end is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import h11

from agor.testing.model.answering import Answer, Question, whole
from agor.testing.model.playing import Fault, Wait
from agor.testing.model.records import Outcome


class Bounds(NamedTuple):
    """What one connection may take."""

    body: int = 64 * 1024 * 1024
    head: int = 64 * 1024
    #: Seconds until the next bytes of a request, or the next request.
    idle: float = 120.0
    #: Seconds that a stalled answer, or one that nobody reads, is held.
    stall: float = 3600.0


DEFAULT_BOUNDS = Bounds()

_AT_ONCE = 64 * 1024
#: Seconds in which somebody who still sends can read why they are refused.
_LINGER = 2.0

#: Answers a question; what it gives beside the answer is told what became of it.
Answerer = Callable[[Question], Awaitable[tuple[Answer, Callable[[Outcome], Awaitable[None]]]]]


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.answer = whole(status, {"error": {"message": message}}, [("connection", "close")])


class Connection:
    """A connection, from its first byte to its end."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answerer: Answerer,
        bounds: Bounds,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answerer = answerer
        self._bounds = bounds
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=bounds.head)
        #: A read under way. It outlives the answer beside which it was begun.
        self._reading: asyncio.Task[bytes] | None = None

    async def serve(self) -> None:
        """Serve until one of the two has enough."""
        try:
            while (question := await self._next_question()) is not None:
                if not await self._exchange(question):
                    return
                self._http.start_next_cycle()
        except _Refused as refused:
            await self._refuse(refused.answer)
        except h11.RemoteProtocolError as error:
            await self._refuse(_Refused(error.error_status_hint, str(error)).answer)
        except (OSError, TimeoutError):
            # They are gone, or may as well be.
            pass
        finally:
            await self._close()

    # ── a request ────────────────────────────────────────────────────────────────────────────

    async def _next_question(self) -> Question | None:
        """Read the next request; none if there is no further one."""
        request: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                await self._read_more(request is not None)
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > self._bounds.body:
                    raise _Refused(413, f"the body is over {self._bounds.body} bytes")
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                return _question(request, bytes(body))
            else:
                return None

    async def _read_more(self, is_body: bool) -> None:
        if is_body and self._http.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[]))
        async with asyncio.timeout(self._bounds.idle):
            data = await asyncio.shield(self._begin_reading())
        self._reading = None
        self._http.receive_data(data)

    def _begin_reading(self) -> asyncio.Task[bytes]:
        if self._reading is None:
            self._reading = asyncio.create_task(self._reader.read(_AT_ONCE))
        return self._reading

    # ── its answer ───────────────────────────────────────────────────────────────────────────

    async def _exchange(self, question: Question) -> bool:
        """Answer a request, unless they hang up; tells whether the connection can go on."""
        answer, settle = await self._answerer(question)
        answering = asyncio.create_task(self._answer(answer, question.method))
        reading = self._begin_reading()
        try:
            await asyncio.wait((answering, reading), return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and self._take_early(reading):
                await asyncio.wait((answering,))
        finally:
            # They hung up, or we are told to end.
            answering.cancel()
            await asyncio.wait((answering,))
            outcome = _outcome(answering)
            await settle(outcome)
        return outcome == "answered" and self._http.our_state is h11.DONE

    def _take_early(self, reading: asyncio.Task[bytes]) -> bool:
        """Take what came while we answer: the next request, or that they are gone (False).

        We look no further than this, so that it is bounded.
        """
        self._reading = None
        data = b"" if reading.exception() else reading.result()
        self._http.receive_data(data)
        return bool(data)

    async def _answer(self, answer: Answer, method: str) -> Outcome:
        if answer.length is None:
            self._send_head(answer)
        for piece in answer.pieces:
            if isinstance(piece, Wait):
                await asyncio.sleep(piece.seconds)
            elif piece is Fault.STALL:
                await asyncio.sleep(self._bounds.stall)
                return "cut"
            elif piece is Fault.CUT:
                return "cut"
            else:
                if answer.length is not None:
                    self._send_head(answer)
                if method != "HEAD":
                    self._send(h11.Data(data=piece))
                async with asyncio.timeout(self._bounds.stall):
                    await self._writer.drain()
        self._send(h11.EndOfMessage())
        return "answered"

    def _send_head(self, answer: Answer) -> None:
        headers = list(answer.headers)
        if answer.length is not None:
            headers.append(("content-length", str(answer.length)))
        self._send(h11.Response(status_code=answer.status, headers=headers))

    def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    async def _refuse(self, answer: Answer) -> None:
        """Refuse what is no request that we take, and let them read it."""
        with contextlib.suppress(OSError, TimeoutError, h11.LocalProtocolError):
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                await self._answer(answer, "")
                self._writer.write_eof()
                async with asyncio.timeout(_LINGER):
                    while await asyncio.shield(self._begin_reading()):
                        self._reading = None

    async def _close(self) -> None:
        """Close. What was written still goes out, within bounds."""
        if self._reading is not None:
            self._reading.cancel()
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LINGER):
                await self._writer.wait_closed()
        self._writer.transport.abort()


def _outcome(answering: asyncio.Task[Outcome]) -> Outcome:
    if answering.cancelled() or isinstance(answering.exception(), OSError | TimeoutError):
        return "abandoned"
    return answering.result()


def _question(request: h11.Request, body: bytes) -> Question:
    return Question(
        method=request.method.decode("ascii"),
        target=request.target.decode("latin-1"),
        headers={
            name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers
        },
        body=body,
    )
