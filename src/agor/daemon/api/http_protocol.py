"""HTTP as uvicorn speaks it, with the bounds it lacks: on time, on heads, on connections.

uvicorn waits for ever for the rest of a request and keeps a head of any length. Here a connection
is always in one of three states, and the two in which we wait for the client have a time limit:
a request is on its way to us (ours), it is being answered (no limit), nothing goes on (uvicorn's).
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from agor.daemon.api.answers import Answer, Scope, offer_exchange, raw_answer
from agor.daemon.api.outlet import Outlet
from agor.daemon.api.problems import problem, problem_of, retry_after
from agor.daemon.api.settings import ApiSettings
from agor.errors import BadInput, Overloaded, TimedOut, TooLarge


class HttpProtocol(HttpToolsProtocol):
    """One connection, until it becomes a WebSocket."""

    def __init__(self, settings: ApiSettings, **for_uvicorn: Any) -> None:
        super().__init__(**for_uvicorn)
        self._settings = settings
        self._timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        #: Whether a request has begun and is not here as a whole.
        self._arriving = False
        self._in_head = False
        #: What is known of the head: what the parser told of it, and what it was fed for it.
        self._head_told = self._head_fed = 0

    # ── the connection ───────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, if there is room for another connection."""
        super().connection_made(transport)
        self._outlet = Outlet(transport, self._settings.stall_timeout)
        if len(self.connections) > self._settings.max_connections:
            answer = problem_of(Overloaded("too many connections to the daemon at once"))
            assert answer is not None
            self._refuse(answer)
        else:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits for the client."""
        self._stop_timer()
        self._stop_watching()
        self._outlet.lose()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass it on, and see to it that the client reads."""
        super().pause_writing()
        self._outlet.pause()
        self._watch_reading()

    def resume_writing(self) -> None:
        """Pass it on."""
        super().resume_writing()
        self._outlet.resume()
        self._stop_watching()

    def timeout_keep_alive_handler(self) -> None:
        """Hang up on an idle connection, and do not wait for one that never took its answer."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    @property
    def _current(self) -> RequestResponseCycle | None:
        """The request whose head came last."""
        return self.cycle

    # ── a request arrives ────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        """Parse it, and see to it that the rest comes in time."""
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        if self._in_head:
            self._head_fed += len(data)
            if self._head_fed > self._settings.max_head:
                self.send_400_response("")
                return
        if self._timer is None and (self._arriving or self._is_stray):
            self._start_timer()

    @property
    def _is_stray(self) -> bool:
        """Whether what came is no request yet, and nobody else waits for the rest of it."""
        answered = self._current is None or self._current.response_complete
        return answered and self.timeout_keep_alive_task is None

    def on_message_begin(self) -> None:
        """Begin a request, with a time of its own."""
        super().on_message_begin()
        self._outlet.offer(cast("Scope", self.scope))
        self._arriving = self._in_head = True
        self._head_told = self._head_fed = 0
        self._stop_timer()

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        self._in_head = False
        self._head_told = len(self.url) + sum(len(name) + len(at) for name, at in self.headers)
        if self._head_told > self._settings.max_head:
            # The parser gives up, and uvicorn calls send_400_response.
            raise ValueError("too long")
        super().on_headers_complete()
        if self._current is not None:
            offer_exchange(cast("Scope", self.scope), _Exchange(self._current))

    def on_message_complete(self) -> None:
        """It is here as a whole: from now on it waits for us."""
        self._arriving = False
        self._stop_timer()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """Leave the connection to the other protocol."""
        self._stop_timer()
        super().handle_websocket_upgrade()

    # ── refusals ─────────────────────────────────────────────────────────────────────────────

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - it says less than we know
        """Refuse what is not HTTP, or more of it than we take."""
        most = self._settings.max_head
        if max(self._head_told, self._head_fed) > most:
            told: TooLarge | BadInput = TooLarge(f"the head of the request is over {most} bytes")
            answer = problem(431, "Too large", code=told.code, detail=told.message)
        else:
            told = BadInput("this is not HTTP/1.1")
            answer = problem(400, "Bad request", code=told.code, detail=told.message)
        current = self._current
        if current is None or current.response_complete or not current.response_started:
            self._refuse(answer)
        else:
            self.transport.close()

    def _refuse(self, answer: Answer) -> None:
        """Answer outside of any request, and hang up."""
        self._stop_timer()
        self.transport.write(raw_answer(answer, self.server_state.default_headers, close=True))
        self.transport.close()

    # ── time ─────────────────────────────────────────────────────────────────────────────────

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self._settings.request_timeout, self._out_of_time)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch_reading(self) -> None:
        """Drop the connection if the client takes no byte of its answer.

        Those who follow a feed watch that themselves, and earlier.
        """
        unsent = self.transport.get_write_buffer_size()

        def look() -> None:
            if self.transport.get_write_buffer_size() == unsent:
                self.transport.abort()
            else:
                self._watch_reading()

        self._stall_timer = self.loop.call_later(2 * self._settings.stall_timeout, look)

    def _stop_watching(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _out_of_time(self) -> None:
        self._timer = None
        current = None if self._in_head else self._current
        if not self._arriving or (current is not None and current.response_started):
            # There is nobody to tell, or they were told already.
            self.transport.close()
            return
        seconds = self._settings.request_timeout
        told = TimedOut(f"the request did not arrive within {seconds:g} s")
        self._refuse(
            problem(
                408, "Not in time", code=told.code, detail=told.message, headers=[retry_after(1)]
            )
        )


class _Exchange:
    """One request on a connection, and its answer, past uvicorn's pieces."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    def take_body(self) -> bytes | None:
        """Take the body, as `receive` would give it in one piece."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or cycle.flow.read_paused:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        cycle.message_event.clear()
        return body

    def answer(self, answer: Answer, *, head: bool) -> bool:
        """Give a plain answer as a whole, as uvicorn would piece by piece."""
        cycle = self._cycle
        if (
            answer.headers
            or cycle.disconnected
            or cycle.response_started
            or cycle.flow.write_paused
        ):
            return False
        close = not cycle.keep_alive
        cycle.transport.write(raw_answer(answer, cycle.default_headers, close=close, head=head))
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        if close:
            cycle.transport.close()
        cycle.on_response()
        return True
