"""WebSockets as uvicorn speaks them, with an outlet for the feed.

Frames are not compressed and the server's are not masked, so frames that were made once, for all,
can be written straight to the transport between those that the library makes.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import Frame

from agor.daemon.api.answers import Scope, raw_answer
from agor.daemon.api.outlet import Outlet
from agor.daemon.api.problems import problem
from agor.daemon.api.settings import ApiSettings
from agor.errors import BadInput

_KEY = "agor.websocket"


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """One connection, from its handshake on."""

    def __init__(self, settings: ApiSettings, **for_uvicorn: Any) -> None:
        super().__init__(**for_uvicorn)
        self._settings = settings
        #: The answer to the last ping, for when the client reads again.
        self._owed_pong = b""

    @classmethod
    def of(cls, scope: Scope) -> WebSocketProtocol:
        """Take the connection of a request."""
        return cast("WebSocketProtocol", scope[_KEY])

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection over."""
        super().connection_made(transport)
        self._outlet = Outlet(self.transport, self._settings.stall_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits for the client."""
        self._outlet.lose()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass it on."""
        super().pause_writing()
        self._outlet.pause()

    def resume_writing(self) -> None:
        """Pass it on, and make up for what was left out meanwhile."""
        super().resume_writing()
        self._outlet.resume()
        if self._owed_pong and not self.close_sent:
            self.transport.write(self._owed_pong)
        self._owed_pong = b""

    def run_asgi(self) -> Any:
        """Give the application what it needs of us."""
        scope = cast("Scope", self.scope)
        scope[_KEY] = self
        self._outlet.offer(scope)
        return super().run_asgi()

    def data_received(self, data: bytes) -> None:
        """Take what the client sends; the whole of its handshake comes first, in one piece."""
        super().data_received(data)
        if not self.handshake_initiated:
            # The library found it unreadable, and waits for nothing more.
            told = BadInput("this is no WebSocket handshake")
            answer = problem(400, "Bad request", code=told.code, detail=told.message)
            self.transport.write(raw_answer(answer, self.default_headers, close=True))
            self.transport.close()

    def take_messages(self, longest: int) -> None:
        """Take messages of the client up to this length, in bytes."""
        self.conn.max_message_size = longest

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    def farewell(self, code: int, reason: str) -> None:
        """Close, behind all that was written. Who does not take it in time is hung up on.

        uvicorn's own way waits until the client reads, which may be never.
        """
        if self.close_sent or self.disconnected or self.transport.is_closing():
            return
        self.stop_keepalive()
        with contextlib.suppress(InvalidState):
            self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self._hang_up_soon()

    def handle_close(self, event: Frame) -> None:
        """Let the client go; one that does not read its good-bye is hung up on."""
        super().handle_close(event)
        self._hang_up_soon()

    def handle_parser_exception(self) -> None:
        """Close on what is no WebSocket frame."""
        super().handle_parser_exception()
        self._hang_up_soon()

    def _hang_up_soon(self) -> asyncio.TimerHandle:
        # Closing waits until all is sent, and that may be never.
        return self.loop.call_later(self._settings.farewell_timeout, self.transport.abort)

    # ── signs of life ────────────────────────────────────────────────────────────────────────

    def handle_ping(self) -> None:
        """Answer it; if answers would pile up, only the last, as RFC 6455 allows."""
        pong = b"".join(self.conn.data_to_send())
        if not self._outlet.congested:
            self.transport.write(pong)
        elif pong:
            self._owed_pong = pong

    def send_keepalive_ping(self) -> None:
        """Ask for a sign of life. One that is behind with reading is watched by the outlet."""
        if self._outlet.congested:
            self.schedule_ping()
        else:
            super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        """Close, if there was none."""
        self.pong_timer = None
        if self._outlet.congested:
            self.schedule_ping()
        else:
            self.farewell(1011, "no answer to a ping")
