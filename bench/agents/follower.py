"""The lightest client of a feed: a socket, and the frames of a WebSocket read as they come.

What a client does with the events is not what is measured, so it does next to nothing.
"""

import base64
import json
import os
import socket
from typing import Any

from bench.results import BenchError

#: Seconds without any event; an agent's start on a busy machine takes several.
PATIENCE = 120.0
_TEXT, _CLOSE, _PING = 1, 8, 9


class Follower:
    """Reads the events of one session, from its beginning."""

    def __init__(self, port: int, token: str, session_id: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._held = bytearray()
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET /sessions/{session_id}/events?after=0 HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        while (end := self._held.find(b"\r\n\r\n")) < 0:
            self._receive()
        if not self._held.startswith(b"HTTP/1.1 101"):
            raise BenchError(f"the feed was refused: {bytes(self._held[:500])!r}")
        del self._held[: end + 4]

    def close(self) -> None:
        self._socket.close()

    def event(self) -> dict[str, Any]:
        """Wait for the next event."""
        while True:
            kind, body = self._frame()
            if kind == _TEXT:
                event: dict[str, Any] = json.loads(body)
                return event
            if kind == _CLOSE:
                raise BenchError(f"the feed was closed: {body!r}")
            if kind == _PING:
                # A pong needs a mask, and one of zeros will do.
                self._socket.sendall(bytes((0x8A, 0x80 | len(body), 0, 0, 0, 0)) + body)

    def _frame(self) -> tuple[int, bytes]:
        self._need(2)
        kind, length, start = self._held[0] & 0x0F, self._held[1], 2
        if length >= 126:
            start = 4 if length == 126 else 10
            self._need(start)
            length = int.from_bytes(self._held[2:start], "big")
        self._need(start + length)
        body = bytes(self._held[start : start + length])
        del self._held[: start + length]
        return kind, body

    def _need(self, count: int) -> None:
        while len(self._held) < count:
            self._receive()

    def _receive(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise BenchError("the daemon closed the feed's connection")
        self._held += data
